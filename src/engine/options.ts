import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { DEFAULT_REDIS_TIMEOUT_MS, DEFAULT_REPLAY_WINDOW_SECS } from '../replay/index.js';
import { DEFAULT_MAX_WAIT_MS } from '../revocation/index.js';

/** The schema of an integer option. */
export const count = (min: number, max = Number.MAX_SAFE_INTEGER) => z.number().int().min(min).max(max);
const did = z.string().refine((text) => DEFAULT_KEYS.publicKeyOf(text) !== null, {
  error: ({ input }) => `${JSON.stringify(input)} is not ${DEFAULT_KEYS.expected}`,
});

/**
 * What a verifier can be told. The service reads each option from the environment variable of the same name in
 * capitals: `maxChainDepth` is `MAX_CHAIN_DEPTH`.
 */
export const verifierOptions = z.strictObject({
  /** The most delegation receipts in a bundle. A higher value lets one request ask for more signatures. */
  maxChainDepth: count(1, 1024).default(16),
  /** Seconds by which `nbf` and `exp` are relaxed. A higher value keeps expired receipts alive for as long. */
  clockSkewSecs: count(0, 86_400).default(0),
  /** Accept only invocations whose `tool_server` is this. Unset, a call for another server passes here too. */
  serverIdentity: z.string().min(1).optional(),
  /** Accept only these root principals. Unset, anyone can be a root: the caller must check `root_principal`. */
  trustedRoots: z.array(did).min(1).optional(),
  /**
   * `true` (`REQUIRE_BINDING=1`): a call without a body, or with another one than was signed, is not valid. For callers
   * that read only `valid`.
   */
  requireBinding: z.boolean().default(false),
  /** Threads that verify signatures; 0 verifies on the calling thread. */
  workerThreads: count(0, 256).default(() => Math.max(1, availableParallelism() - 1)),
  /** Bytes for receipts known to verify; 0 turns the cache off. It never changes a verdict. */
  receiptCacheBytes: count(0).default(64 * 1024 * 1024),
  /**
   * Where local revocations are kept: `memory` (lost on restart), `file`, or `redis`, where all instances share them. By
   * default `file` where `revocationStorePath` is set, else `memory`.
   */
  revocationStore: z.enum(['memory', 'file', 'redis']).optional(),
  /** A file of locally revoked indices, appended to; for one process at a time. */
  revocationStorePath: z.string().min(1).optional(),
  /** Replicas of Redis that must have a revocation before it is acknowledged; 0 survives no fail-over of Redis. */
  revocationMinReplicas: count(0, 16).default(0),
  /** Where the W3C Bitstring Status List is fetched. Unset, only the local store revokes. */
  statusListBaseUrl: z.url({ protocol: /^https?$/ }).optional(),
  /** Seconds for which a fetched list is used: how long a remote revocation may go unnoticed. */
  statusCacheTtlSecs: count(1, 31_536_000).default(300),
  /** Seconds for which an expired list still serves while a fetch is tried; 0 fails closed at once. */
  statusMaxStaleSecs: count(0, 31_536_000).default(0),
  /** Milliseconds for which a verification waits for the list where no usable copy is left, before it is refused. */
  statusFetchTimeoutMs: count(1, 10_000).default(DEFAULT_MAX_WAIT_MS),
  /** Accept only lists signed by this did:key. Unset, whoever answers at the URL can revoke and un-revoke. */
  statusListIssuer: did.optional(),
  /** Refuse an invocation that was used before: on record in this process, or in Redis for all instances. */
  replayProtection: z.enum(['memory', 'redis']).optional(),
  /** Seconds for which an invocation is fresh, and then on record. A higher value takes more memory. */
  replayWindowSecs: count(1, 31_536_000).default(DEFAULT_REPLAY_WINDOW_SECS),
  /** The most invocations on record in this process, about 300 bytes each; when it is full, calls are refused. */
  replayMaxEntries: count(1).default(1_000_000),
  /**
   * Where Redis is, for `replayProtection` and `revocationStore`; several servers are separated by commas. Whoever
   * controls it can let replays pass and forget revocations.
   */
  redisUrl: z
    .string()
    .refine(
      (text) => text.split(',').every((url) => isRedisUrl(url.trim())),
      'expected redis:// or rediss://',
    )
    .default('redis://127.0.0.1:6379'),
  /** Milliseconds to wait for an answer of Redis before a call is refused; every call may have to wait so long. */
  redisTimeoutMs: count(1, 60_000).default(DEFAULT_REDIS_TIMEOUT_MS),
});

function isRedisUrl(text: string): boolean {
  return /^rediss?:\/\/\S+$/.test(text) && URL.canParse(text);
}

/** Options of a verifier, all optional. */
export type VerifierOptions = z.input<typeof verifierOptions>;

/** Options of a verifier with defaults filled in. */
export type VerifierSettings = z.output<typeof verifierOptions>;

/** Options that a verifier or the service cannot work with. Every problem is in the message, a line each. */
export class OptionsError extends Error {
  override readonly name = 'OptionsError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Fills in defaults.
 *
 * @throws OptionsError naming every problem
 */
export function readVerifierOptions(options: VerifierOptions): VerifierSettings {
  const { success, data, error } = verifierOptions.safeParse(options);
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
 * What options say against one another, a problem each.
 *
 * @param nameOf an option, as whoever set it knows it
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
