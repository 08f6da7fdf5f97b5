import { readJson } from '../test/oracle/json.js';
import { judge, type Settings } from '../test/oracle/oracle.js';
import { writeJson } from '../test/oracle/json.js';

/** How a verifier is set up. */
export interface Profile {
  readonly settings: Settings;
  /** `remote`: `none`, `unavailable`, or the bytes of the status list in hex. */
  readonly revocation: { readonly remote: string; readonly local: readonly number[] };
}

/** What a vector expects: a status other than 200, or a verdict. */
export interface Expected {
  readonly status?: number;
  readonly valid?: boolean;
  readonly code?: string;
  readonly binding?: string;
  readonly context?: unknown;
}

/** What the oracle says of the text of a `POST /verify`. */
export function askOracle({ settings, revocation }: Profile, text: string, now: number): Expected {
  const bundle = readJson(text);
  if (bundle === undefined) return { status: 400 };
  const { remote, local } = revocation;
  const members = bundle.kind === 'object' ? bundle.members : [];
  const answer = judge({
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
  const { leaf_policy, ...context } = answer.context;
  return {
    valid: true,
    ...bound,
    context: { ...context, leaf_policy: JSON.parse(writeJson(leaf_policy)) as unknown },
  };
}
