import { z } from 'zod';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { DEFAULT_REDIS_TIMEOUT_MS, DEFAULT_REPLAY_WINDOW_SECS } from '../replay/index.js';
import { DEFAULT_MAX_WAIT_MS } from '../revocation/index.js';
import { resourcesHere } from './resources.js';

/** The schema of an integer option. */
export const count = (min: number, max = Number.MAX_SAFE_INTEGER) => z.number().int().min(min).max(max);
const did = z.string().refine((text) => DEFAULT_KEYS.publicKeyOf(text) !== null, {
  error: ({ input }) => `${JSON.stringify(input)} is not ${DEFAULT_KEYS.expected}`,
});

/**
 * The options of a verifier. The service reads each one from an environment variable: `maxChainDepth` from
 * `MAX_CHAIN_DEPTH`.
 */
export const verifierOptions = z.strictObject({
  /** Maximum number of delegation receipts in a bundle. With a higher value, one request can cost more signatures. */
  maxChainDepth: count(1, 1024).default(16),
  /** Seconds by which `nbf` and `exp` are relaxed. A higher value keeps expired receipts alive for as long. */
  clockSkewSecs: count(0, 86_400).default(0),
  /**
   * Accept only invocations with this `tool_server`. If unset or `any`, calls for other servers are valid here too. The
   * gate of the service refuses calls if it is unset.
   */
  serverIdentity: z.string().min(1).optional(),
  /** Accept only these root principals. If unset, anyone can be a root: the caller must check `root_principal`. */
  trustedRoots: z.array(did).min(1).optional(),
  /**
   * `true` (`REQUIRE_BINDING=1`): a call is invalid if it has no body, or a body that was not signed. For callers
   * that read only `valid`.
   */
  requireBinding: z.boolean().default(false),
  /** Threads that verify signatures; 0 verifies on the calling thread. */
  workerThreads: count(0, 256).default(() => Math.max(0, Math.floor(resourcesHere().cores) - 1)),
  /** Bytes for the cache of verified receipts; 0 turns it off. The cache never changes a verdict. */
  receiptCacheBytes: count(0).default(64 * 1024 * 1024),
  /**
   * Where local revocations are kept: `memory` (lost on restart), `file`, or `redis`, where all instances share them.
   * Default: `file` if `revocationStorePath` is set, else `memory`.
   */
  revocationStore: z.enum(['memory', 'file', 'redis']).optional(),
  /** An append-only file of locally revoked indices. Only one process at a time can use it. */
  revocationStorePath: z.string().min(1).optional(),
  /** Replicas of Redis that must have a revocation before it is acknowledged; 0 survives no fail-over of Redis. */
  revocationMinReplicas: count(0, 16).default(0),
  /** The URL of the W3C Bitstring Status List. If unset, only local revocations count. */
  statusListBaseUrl: z.url({ protocol: /^https?$/ }).optional(),
  /** Seconds for which a fetched list is used. A remote revocation may go unnoticed for this long. */
  statusCacheTtlSecs: count(1, 31_536_000).default(300),
  /** Seconds for which an expired list is still used while fetches are tried; 0 fails closed at once. */
  statusMaxStaleSecs: count(0, 31_536_000).default(0),
  /** Milliseconds for which a verification waits for the list if there is no usable copy, before it is refused. */
  statusFetchTimeoutMs: count(1, 10_000).default(DEFAULT_MAX_WAIT_MS),
  /** Accept only lists signed by this did:key. If unset, whoever answers at the URL can revoke and undo revocations. */
  statusListIssuer: did.optional(),
  /**
   * Refuse an invocation that was used before. Used ones are recorded in this process, or in Redis for all instances.
   */
  replayProtection: z.enum(['memory', 'redis']).optional(),
  /** Maximum age of an invocation in seconds; used ones are recorded for as long. A higher value takes more memory. */
  replayWindowSecs: count(1, 31_536_000).default(DEFAULT_REPLAY_WINDOW_SECS),
  /** Maximum number of invocations recorded in this process, about 300 bytes each. When full, calls are refused. */
  replayMaxEntries: count(1).default(1_000_000),
  /**
   * The URL of Redis for `replayProtection` and `revocationStore`; several servers are separated by commas. Whoever
   * controls Redis can allow replays and delete revocations.
   */
  redisUrl: z
    .string()
    .refine(
      (text) => text.split(',').every((url) => isRedisUrl(url.trim())),
      'expected redis:// or rediss://',
    )
    .default('redis://127.0.0.1:6379'),
  /** Milliseconds to wait for an answer from Redis before a call is refused. Any call may have to wait this long. */
  redisTimeoutMs: count(1, 60_000).default(DEFAULT_REDIS_TIMEOUT_MS),
});

function isRedisUrl(text: string): boolean {
  return /^rediss?:\/\/\S+$/.test(text) && URL.canParse(text);
}

/** Options of a verifier, all optional. */
export type VerifierOptions = z.input<typeof verifierOptions>;

/** Options of a verifier with defaults filled in. */
export type VerifierSettings = z.output<typeof verifierOptions>;

/** The options are invalid. The message lists every problem, one per line. */
export class OptionsError extends Error {
  override readonly name = 'OptionsError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Fills in defaults. An option that is given as `undefined` is refused: the value of a variable that is not set must not
 * open anything.
 *
 * @throws OptionsError with all problems
 */
export function readVerifierOptions(options: VerifierOptions): VerifierSettings {
  const missing = Object.entries(options).filter(([, value]) => value === undefined);
  if (missing.length > 0)
    throw new OptionsError(
      missing.map(([name]) => `${name}: it is undefined, expected a value; for the default, leave it out`),
    );
  // Without a prototype: what others add to Object.prototype is no option.
  const own: unknown = Object.assign(Object.create(null), options);
  const { success, data, error } = verifierOptions.safeParse(own);
  if (success) {
    const problems = findContradictions(data, (option) => option);
    if (problems.length === 0) return data;
    throw new OptionsError(problems);
  }
  throw new OptionsError(
    error.issues.map((issue) => `${issue.path.join('.') || 'options'}: ${issue.message}`),
  );
}

/**
 * Finds options that contradict each other.
 *
 * @param nameOf returns the name under which the user knows an option
 */
export function findContradictions(
  settings: Pick<VerifierSettings, 'revocationStore' | 'revocationStorePath' | 'revocationMinReplicas'>,
  nameOf: (option: string) => string,
): string[] {
  const { revocationStore: store, revocationStorePath: path, revocationMinReplicas: replicas } = settings;
  const [storeName, pathName] = [nameOf('revocationStore'), nameOf('revocationStorePath')];
  const problems: string[] = [];
  if (store === 'file' && path === undefined)
    problems.push(`${storeName} is "file" and ${pathName} is not set: name the file there`);
  if ((store === 'memory' || store === 'redis') && path !== undefined)
    problems.push(
      `${pathName} is set, and ${storeName} is "${store}", which would not read it: unset one of them` +
        (store === 'redis' ? '; `drs-verify revocations import <file>` moves a file to Redis' : ''),
    );
  if (replicas > 0 && store !== 'redis')
    problems.push(`${nameOf('revocationMinReplicas')} is ${replicas}, and ${storeName} is not "redis"`);
  return problems;
}
