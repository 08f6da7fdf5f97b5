// The decisions of the gate in the inspector, on the vectors whose decision depends on no earlier call.
import type { Protocol } from '../../src/gate/codes.js';
import type { JsonObject } from '../../src/protocol/json.js';
import type { Sodium } from '../../src/pure/parts.js';
import { pureParts } from '../../src/pure/parts.js';
import { judge } from '../../src/verify/judge.js';
import { comparable, openAs, refusalByGate } from '../../web/inspect/gate.js';
import { readGateQuestion } from '../../web/inspect/http-text.js';

export interface GateVector {
  readonly id: string;
  readonly now: number;
  readonly request: JsonObject & { readonly protocol: Protocol };
  readonly expected: { readonly decision: string; readonly status?: number; readonly code?: string };
}

/** @returns how many were asked, and the differences */
export async function runGateVectors(
  sodium: Sodium,
  vectors: readonly GateVector[],
): Promise<{ decisions: number; differences: string[] }> {
  const parts = pureParts({ sodium });
  const differences: string[] = [];
  const decide = async ({ request, now }: GateVector): Promise<GateVector['expected']> => {
    const question = readGateQuestion(request, JSON.stringify(request));
    if (question === null) throw new Error('not a question to a gate');
    const opened = openAs(request.protocol, question);
    if (opened.kind === 'pass') return { decision: 'pass' };
    const failure =
      opened.kind === 'deny'
        ? opened.failure
        : await refusalByGate(
            opened,
            await judge({ bundle: opened.bundle, body: comparable(opened.body), now }, parts),
          );
    if (failure === null) return { decision: 'allow' };
    return { decision: 'deny', status: failure.status, code: failure.code };
  };
  for (const vector of vectors) {
    const { id, expected } = vector;
    const found = await decide(vector);
    const [given, wanted] = [found, expected].map((one) => `${one.decision} ${one.status} ${one.code}`);
    if (given !== wanted) differences.push(`${id}: ${given}, not ${wanted}`);
  }
  return { decisions: vectors.length, differences };
}
