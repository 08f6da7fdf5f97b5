import { createHash } from 'node:crypto';
import type { Step, Request } from './request.js';
import { explain, type Difference } from './run.js';
import type { TargetKind, World } from './targets.js';

/** A counterexample as it is kept: it needs no generator to be played again. */
export interface Case {
  readonly expected: string;
  readonly actual: string;
  readonly target: TargetKind;
  readonly world: { readonly name: string; readonly settings: World['settings']; readonly remote: string };
  readonly steps: readonly Step[];
  /** The last request, for the reader. */
  readonly explained: Readonly<Record<string, unknown>>;
}

export function toCase({ expected, actual, target, world, steps, request }: Difference): Case {
  const { remote } = world;
  return {
    expected,
    actual,
    target,
    world: {
      ...world,
      remote: remote instanceof Uint8Array ? `hex:${Buffer.from(remote).toString('hex')}` : remote,
    },
    steps: steps.map((step) =>
      step.kind === 'revoke' ? step : { ...step, request: withoutRecipe(step.request) },
    ),
    explained: explain(request),
  };
}

export function worldOf({ world }: Case): World {
  const { remote } = world;
  if (remote === 'none' || remote === 'unavailable') return { ...world, remote };
  return { ...world, remote: Uint8Array.from(Buffer.from(remote.replace('hex:', ''), 'hex')) };
}

export function fileName(found: Case): string {
  const words = `${found.actual.split(' ')[0]}-not-${found.expected.split(' ')[0]}`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-');
  return `${words}-${createHash('sha256').update(JSON.stringify(found.steps)).digest('hex').slice(0, 8)}.json`;
}

function withoutRecipe(request: Request): Request {
  const copy: { recipe?: unknown } = { ...request };
  delete copy.recipe;
  return copy as Request;
}
