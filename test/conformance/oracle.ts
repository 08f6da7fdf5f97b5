import { readJson } from '../oracle/json.js';
import { verify, type Revocation, type Settings } from '../oracle/oracle.js';
import { writeJson } from '../oracle/json.js';
import { decide, Replays, type Protocol } from '../oracle/gate.js';

/** The settings and the revocations of a verifier. */
export interface Profile {
  readonly settings: Settings;
  /** `local`: indices, digests of receipts, DIDs. `remote`: `none`, `unavailable`, or the bytes of the status list in hex. */
  readonly revocation: { readonly remote: string; readonly local: readonly (number | string)[] };
}

/** The expected answer of a vector: a status other than 200, or a verdict. */
export interface Expected {
  readonly status?: number;
  readonly valid?: boolean;
  readonly code?: string;
  readonly binding?: string;
  readonly context?: unknown;
}

/** The oracle's answer to the text of a `POST /verify`. */
export function askOracle({ settings, revocation }: Profile, text: string, now: number): Expected {
  const bundle = readJson(text);
  if (bundle === undefined) return { status: 400 };
  const { remote, local } = revocation;
  const members = bundle.kind === 'object' ? bundle.members : [];
  const answer = verify({
    bundle,
    body: members.findLast(([name]) => name === 'body')?.[1],
    now,
    settings,
    revocation: {
      remote: remote === 'none' || remote === 'unavailable' ? remote : Buffer.from(remote, 'hex'),
      local: new Set(local),
    },
  });
  const bound = answer.binding === undefined ? {} : { binding: answer.binding };
  if (!answer.valid) return { valid: false, code: answer.code, ...bound };
  const { root_principal, chain_depth, leaf_policy } = answer.context;
  return {
    valid: true,
    ...bound,
    context: { root_principal, chain_depth, leaf_policy: JSON.parse(writeJson(leaf_policy)) as unknown },
  };
}

/** A request as `POST /v1/gate` takes it. */
export interface GateAsked {
  readonly protocol: Protocol;
  readonly method: string;
  /** If left out: not known; over A2A the endpoint of JSON-RPC. */
  readonly path?: string;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body_text: string;
}

/** The expected decision of a gate. */
export interface Decision {
  readonly decision: 'pass' | 'allow' | 'deny';
  readonly status?: number;
  readonly code?: string;
}

/** What a gate remembers between requests: nothing, used invocations, or also what their receipts were used for. */
export type Memory = 'nothing' | 'invocations' | 'usage';

/** The oracle's answers to requests to one gate, one after the other. */
export function askOracleGate(
  { settings, revocation: { remote, local } }: Profile,
  asked: readonly { readonly request: GateAsked; readonly now: number }[],
  memory: Memory,
): Decision[] {
  const replays = new Replays(settings.clockSkewSecs, memory === 'usage');
  const list: Revocation['remote'] =
    remote === 'none' || remote === 'unavailable' ? remote : Buffer.from(remote, 'hex');
  const revocation = { remote: list, local: new Set(local) };
  return asked.map(({ request: { protocol, method, path, headers, body_text: text }, now }) => {
    const answer = decide({
      ...{
        protocol,
        method,
        path: path ?? (protocol === 'a2a' ? '/' : undefined),
        now,
        settings,
        revocation,
        body: { text },
      },
      headers: Object.entries(headers).flatMap(([name, values]) =>
        values.map((value) => [name, value] as const),
      ),
      ...(memory !== 'nothing' && { replays }),
    });
    if (answer.decision !== 'deny') return { decision: answer.decision };
    const { decision, status, code } = answer;
    return { decision, status, code };
  });
}
