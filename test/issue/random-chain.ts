import fc from 'fast-check';
import {
  createConsent,
  generateKey,
  IssueError,
  issueRootDelegation,
  issueSubDelegation,
  type IssuedPolicy,
  type JsonObject,
  type SigningKey,
} from '../../src/issue/index.js';

export const NOW = 1_900_000_000;

/** A chain that must verify at {@link NOW}, with every party's key: `keys[0]` is the root's, `keys.at(-1)` the last delegate's. */
export interface IssuedChain {
  readonly receipts: string[];
  readonly keys: SigningKey[];
  readonly policies: IssuedPolicy[];
  readonly commands: string[];
}

export const aConsent = createConsent({ text: 'Bot may act.', locale: 'en', method: 'test', now: NOW });

const segment = fc.stringMatching(/^[a-z][a-z0-9-]{0,6}$/);
const jsonText = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 12 }), fc.constant('\u2028"\\\u0000'));
const jsonObject = fc
  .dictionary(jsonText, fc.oneof(fc.jsonValue({ maxDepth: 2, stringUnit: 'grapheme' }), jsonText), {
    maxKeys: 4,
  })
  // fast-check's JSON values and this project's are the same set; only their declarations differ.
  .map((value) => value as JsonObject);

const rootPolicy = fc.record(
  {
    allowed_tools: fc.uniqueArray(segment, { minLength: 1, maxLength: 6 }),
    max_cost_usd: fc.double({ min: 0, max: 1e6, noNaN: true }),
    max_total_cost_usd: fc.double({ min: 0, max: 1e9, noNaN: true }),
    max_calls: fc.nat(),
    // Enough for 15 delegations, each of which may have one less.
    max_delegations: fc.integer({ min: 15, max: 99 }),
    pii_access: fc.boolean(),
    write_access: fc.boolean(),
    allowed_resources: fc.constant(['file:///data/*', 'https://api.example/*']),
    allowed_data_classes: fc.constant(['public', 'internal']),
    approve_tools: fc.uniqueArray(segment, { maxLength: 3 }),
    'example.com/terms': jsonObject,
  },
  { requiredKeys: [] },
);

const step = fc.record({
  keep: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
  factor: fc.double({ min: 0, max: 1, noNaN: true }),
  below: fc.option(segment, { nil: undefined }),
  later: fc.nat({ max: 10 }),
  sooner: fc.nat({ max: 10 }),
  index: fc.option(fc.nat(), { nil: undefined }),
});

type Writable<T> = { -readonly [N in keyof T]: T[N] };

function narrow(policy: IssuedPolicy, { keep, factor }: { keep: boolean[]; factor: number }): IssuedPolicy {
  const narrowed: Writable<IssuedPolicy> = { ...policy };
  if (policy.allowed_tools) {
    const kept = policy.allowed_tools.filter((_, at) => keep[at]);
    narrowed.allowed_tools = kept.length > 0 ? kept : policy.allowed_tools.slice(0, 1);
  }
  if (policy.max_cost_usd !== undefined) narrowed.max_cost_usd = policy.max_cost_usd * factor;
  if (policy.max_total_cost_usd !== undefined)
    narrowed.max_total_cost_usd = policy.max_total_cost_usd * factor;
  if (policy.max_delegations !== undefined) {
    if (keep[2]) narrowed.max_delegations = policy.max_delegations - 1;
    else if (keep[3]) delete narrowed.max_delegations;
  }
  if (policy.max_calls !== undefined) narrowed.max_calls = Math.floor(policy.max_calls * factor);
  if (policy.allowed_resources && keep[0]) narrowed.allowed_resources = ['file:///data/reports/*'];
  if (keep[1]) narrowed.write_access = false;
  return narrowed;
}

/** Chains of 1 to 16 receipts, each narrowing what is above it in some way. */
export const issuedChain: fc.Arbitrary<Promise<IssuedChain>> = fc
  .tuple(rootPolicy, fc.array(step, { maxLength: 15 }))
  .map(async ([policy, steps]) => {
    const keys = [generateKey(), generateKey()];
    const policies: IssuedPolicy[] = [policy];
    const commands = ['/mcp/tools/call'];
    let window = { notBefore: NOW - 1000, expiresAt: NOW + 1000 };
    const receipts = [
      await issueRootDelegation({
        key: at(keys, 0),
        audience: at(keys, 1).did,
        command: at(commands, 0),
        policy,
        consent: aConsent,
        now: NOW,
        ...window,
      }),
    ];
    for (const next of steps) {
      const delegate = generateKey();
      const narrowed = narrow(at(policies, -1), next);
      const command = at(commands, -1) + (next.below === undefined ? '' : `/${next.below}`);
      window = { notBefore: window.notBefore + next.later, expiresAt: window.expiresAt - next.sooner };
      const receipt = await issueSubDelegation({
        key: at(keys, -1),
        chain: receipts,
        audience: delegate.did,
        policy: narrowed,
        command,
        now: NOW,
        ...window,
        ...(next.index === undefined ? {} : { statusListIndex: next.index }),
      });
      keys.push(delegate);
      policies.push(narrowed);
      commands.push(command);
      receipts.push(receipt);
    }
    return { receipts, keys, policies, commands };
  });

export const randomArgs = jsonObject;

/** What a call must state under such a chain: each within every limit. */
export const STATED: JsonObject = {
  estimated_cost_usd: 0,
  pii_access: false,
  write_access: false,
  resource_uri: 'file:///data/reports/a',
  data_class: 'public',
};

/** The element at an index, which may count from the end; a test that asks for one that is missing is wrong. */
export function at<T>(items: readonly T[], index: number): T {
  const item = items.at(index);
  if (item === undefined) throw new RangeError(`no element at ${index}`);
  return item;
}

/** The decoded payload of a JWT, by Node alone. */
export function payloadOf(jwt: string): JsonObject {
  return JSON.parse(payloadTextOf(jwt)) as JsonObject;
}

/** The payload of a JWT as text. */
export function payloadTextOf(jwt: string): string {
  return Buffer.from(at(jwt.split('.'), 1), 'base64url').toString('utf8');
}

/** A copy without one member. */
export function without<T extends object, K extends keyof T>(object: T, name: K): Omit<T, K> {
  const copy = { ...object };
  Reflect.deleteProperty(copy, name);
  return copy;
}

/** The error of something that must be refused. */
export async function refusalOf(issue: () => unknown): Promise<IssueError> {
  try {
    await issue();
  } catch (error) {
    if (error instanceof IssueError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}
