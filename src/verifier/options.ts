import { nearestName } from '../protocol/nearest-name.js';
import { DEFAULT_REDIS_TIMEOUT_MS, DEFAULT_REPLAY_WINDOW_SECS } from '../usage/index.js';
import { DEFAULT_MAX_ENTRIES, DEFAULT_MAX_WAIT_MS } from '../revocation/index.js';
import {
  count,
  did,
  flag,
  oneOf,
  problemOf,
  readOption,
  roots,
  text,
  type FilledOptions,
  type GivenOptions,
  type Option,
} from './kinds.js';
import { resourcesHere } from './resources.js';

const path = text('a path');

/**
 * The options of a verifier. The service reads each one from an environment variable: `maxChainDepth` from
 * `MAX_CHAIN_DEPTH`.
 */
export const VERIFIER_OPTIONS = {
  /** Maximum number of delegation receipts in a bundle. With a higher value, one request can cost more signatures. */
  maxChainDepth: { kind: count(1, 1024), default: 16 },
  /** Seconds by which `nbf` and `exp` are relaxed. A higher value keeps expired receipts alive for as long. */
  clockSkewSecs: { kind: count(0, 86_400, 'seconds'), default: 0 },
  /**
   * Accept only invocations with this `tool_server`. If unset or `any`, calls for other servers are valid here too. The
   * gate of the service refuses calls if it is unset.
   */
  serverIdentity: { kind: text('a text, or `any`') },
  /**
   * Accept only these root principals: DIDs, or objects like the entries of `trustedRootsFile`. If neither is set, anyone
   * can be a root: the caller must check `root_principal`.
   */
  trustedRoots: { kind: roots },
  /** A file of the root principals, or a directory of such files, which is read again when it changes. */
  trustedRootsFile: { kind: path },
  /**
   * `true` (`REQUIRE_BINDING=1`): a call is invalid if it has no body, or a body that was not signed. For callers
   * that read only `valid`.
   */
  requireBinding: { kind: flag, default: false },
  /** Threads that verify signatures; 0 verifies on the calling thread. */
  workerThreads: { kind: count(0, 256), default: () => Math.max(0, Math.floor(resourcesHere().cores) - 1) },
  /** Bytes for the cache of verified receipts; 0 turns it off. The cache never changes a verdict. */
  receiptCacheBytes: { kind: count(0, undefined, 'bytes'), default: 64 * 1024 * 1024 },
  /**
   * Where local revocations are kept: `memory` (lost on restart), `file`, or `redis`, where all instances share them.
   * Default: `file` if `revocationStorePath` is set, else `memory`.
   */
  revocationStore: { kind: oneOf('memory', 'file', 'redis') },
  /** A file of local revocations. Only one process at a time can use it. */
  revocationStorePath: { kind: path },
  /** Maximum number of local revocations, about 200 bytes each. When full, nothing more can be revoked. */
  revocationMaxEntries: { kind: count(1, 10_000_000), default: DEFAULT_MAX_ENTRIES },
  /** Replicas of Redis that must have a revocation before it is acknowledged; 0 survives no fail-over of Redis. */
  revocationMinReplicas: { kind: count(0, 16), default: 0 },
  /** The URL of the W3C Bitstring Status List. If unset, only local revocations count. */
  statusListBaseUrl: {
    kind: text('a URL with `http://` or `https://`', (url) => /^https?:\/\//i.test(url) && URL.canParse(url)),
  },
  /** What the list is: a signed or unsigned credential, or `raw`: bits, which no issuer can sign. */
  statusListForm: { kind: oneOf('credential', 'raw'), default: 'credential' },
  /** Seconds for which a fetched list is used. A remote revocation may go unnoticed for this long. */
  statusCacheTtlSecs: { kind: count(1, 31_536_000, 'seconds'), default: 300 },
  /** Seconds for which an expired list is still used while fetches are tried; 0 fails closed at once. */
  statusMaxStaleSecs: { kind: count(0, 31_536_000, 'seconds'), default: 0 },
  /** Milliseconds for which a verification waits for the list if there is no usable copy, before it is refused. */
  statusFetchTimeoutMs: { kind: count(1, 10_000, 'milliseconds'), default: DEFAULT_MAX_WAIT_MS },
  /** Accept only lists signed by this did:key. If unset, whoever answers at the URL can revoke and undo revocations. */
  statusListIssuer: { kind: did },
  /**
   * Refuse an invocation that was used before. Used ones are recorded in this process, or in Redis for all instances.
   */
  replayProtection: { kind: oneOf('memory', 'redis') },
  /** Maximum age of an invocation in seconds; used ones are recorded for as long. A higher value takes more memory. */
  replayWindowSecs: { kind: count(1, 31_536_000, 'seconds'), default: DEFAULT_REPLAY_WINDOW_SECS },
  /** Maximum number of invocations recorded in this process, about 300 bytes each. When full, calls are refused. */
  replayMaxEntries: { kind: count(1), default: 1_000_000 },
  /**
   * The URL of Redis for `replayProtection` and `revocationStore`; several servers are separated by commas. Whoever
   * controls Redis can allow replays and delete revocations.
   */
  redisUrl: {
    kind: text('a URL with `redis://` or `rediss://`, or several', areRedisUrls),
    default: 'redis://127.0.0.1:6379',
  },
  /** Milliseconds to wait for an answer from Redis before a call is refused. Any call may have to wait this long. */
  redisTimeoutMs: { kind: count(1, 60_000, 'milliseconds'), default: DEFAULT_REDIS_TIMEOUT_MS },
} satisfies Record<string, Option>;

function areRedisUrls(text: string): boolean {
  const urls = text.split(',').map((url) => url.trim());
  return urls.every((url) => /^rediss?:\/\/\S+$/.test(url) && URL.canParse(url));
}

/** Options of a verifier, all optional. */
export interface VerifierOptions extends GivenOptions<typeof VERIFIER_OPTIONS> {}

/** Options of a verifier with defaults filled in. */
export type VerifierSettings = FilledOptions<typeof VERIFIER_OPTIONS>;

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
  const problems: string[] = [];
  const settings: Record<string, unknown> = {};
  for (const [name, option] of Object.entries<Option>(VERIFIER_OPTIONS)) {
    const isGiven = Object.hasOwn(options, name);
    const given = isGiven ? options[name as keyof VerifierOptions] : undefined;
    if (isGiven && given === undefined) {
      problems.push(`${name}: it is undefined, expected a value; for the default, leave it out`);
      continue;
    }
    const reading = readOption(option, given, settings);
    if ('problem' in reading) problems.push(problemOf(name, given, reading.problem));
    else if (reading.value !== undefined) settings[name] = reading.value;
  }
  for (const name of Object.keys(options))
    if (!Object.hasOwn(VERIFIER_OPTIONS, name)) problems.push(unknownOption(name));
  // Each option is of its kind, if there is no problem.
  const checked = settings as unknown as VerifierSettings;
  if (problems.length === 0) problems.push(...findContradictions(checked, (option) => option));
  if (problems.length > 0) throw new OptionsError(problems);
  return checked;
}

function unknownOption(name: string): string {
  const near = nearestName(name, Object.keys(VERIFIER_OPTIONS));
  return `${name}: it is not an option of a verifier${near === null ? '; leave it out' : `, expected ${near}`}`;
}

/**
 * Finds options that contradict each other.
 *
 * @param nameOf returns the name under which the user knows an option
 */
export function findContradictions(
  settings: Pick<
    VerifierSettings,
    | 'revocationStore'
    | 'revocationStorePath'
    | 'revocationMinReplicas'
    | 'statusListBaseUrl'
    | 'statusListForm'
    | 'statusListIssuer'
    | 'trustedRoots'
    | 'trustedRootsFile'
  >,
  nameOf: (option: string) => string,
): string[] {
  const { revocationStore: store, revocationStorePath: path, revocationMinReplicas: replicas } = settings;
  const [storeName, pathName] = [nameOf('revocationStore'), nameOf('revocationStorePath')];
  const [urlName, issuerName] = [nameOf('statusListBaseUrl'), nameOf('statusListIssuer')];
  const problems: string[] = [];
  if (settings.statusListIssuer !== undefined && settings.statusListBaseUrl === undefined)
    problems.push(
      `${issuerName} is set and there is no list to check: set ${urlName}, or unset ${issuerName}`,
    );
  if (settings.statusListIssuer !== undefined && settings.statusListForm === 'raw')
    problems.push(
      `${issuerName} is set and ${nameOf('statusListForm')} is "raw", a list that nobody can sign: unset one of them`,
    );
  if (settings.trustedRoots !== undefined && settings.trustedRootsFile !== undefined)
    problems.push(
      `${nameOf('trustedRoots')} and ${nameOf('trustedRootsFile')} are both set, expected one of them: add the first to the file`,
    );
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
