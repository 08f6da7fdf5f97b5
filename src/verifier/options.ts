import { did } from '../protocol/key-resolver.js';
import {
  count,
  flag,
  oneOf,
  readOptions,
  text,
  type FilledOptions,
  type GivenOptions,
  type Table,
} from '../protocol/options.js';
import { DEFAULT_REDIS_TIMEOUT_MS, DEFAULT_REPLAY_WINDOW_SECS } from '../usage/index.js';
import { RULE_OPTIONS } from './rules.js';
import { coresHere } from './cores.js';

const path = text('a path');

/**
 * The options of a verifier. The service reads each one from an environment variable: `maxChainDepth` from
 * `MAX_CHAIN_DEPTH`.
 */
export const VERIFIER_OPTIONS = {
  ...RULE_OPTIONS,
  /** A file of the root principals, or a directory of such files, which is read again when it changes. */
  trustedRootsFile: { kind: path },
  /** A file of what tools do, or a directory of such files, which is read again when it changes. See {@link ToolLine}. */
  toolsFile: { kind: path },
  /** Threads that verify signatures; 0 verifies on the calling thread. */
  workerThreads: { kind: count(0, 256), default: () => Math.max(0, Math.floor(coresHere()) - 1) },
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
  revocationMaxEntries: { kind: count(1, 10_000_000), default: 1_000_000 },
  /** Replicas of Redis that must have a revocation before it is acknowledged; 0 survives no fail-over of Redis. */
  revocationMinReplicas: { kind: count(0, 16), default: 0 },
  /** The URL of the W3C Bitstring Status List. If unset, only local revocations count. */
  statusListBaseUrl: {
    kind: text('a URL with `http://` or `https://`', (url) => /^https?:\/\//i.test(url) && URL.canParse(url)),
  },
  /** What the list is: a signed or unsigned credential, or `raw`: bits, which no issuer can sign. */
  statusListForm: { kind: oneOf('credential', 'raw'), default: 'credential' },
  /**
   * The name that the list must have: its `id`. Default: `statusListBaseUrl`. With `any`, another list of the same issuer can take
   * its place, in which other receipts are revoked.
   */
  statusListId: { kind: text('the id of the list, a URL, or `any`') },
  /** Seconds for which a fetched list is used. A remote revocation may go unnoticed for this long. */
  statusCacheTtlSecs: { kind: count(1, 31_536_000, 'seconds'), default: 300 },
  /** Seconds for which an expired list is still used while fetches are tried; 0 fails closed at once. */
  statusMaxStaleSecs: { kind: count(0, 31_536_000, 'seconds'), default: 0 },
  /** Milliseconds for which a verification waits for the list if there is no usable copy, before it is refused. */
  statusFetchTimeoutMs: { kind: count(1, 10_000, 'milliseconds'), default: 2_000 },
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
    isSecret: true,
  },
  /** Milliseconds to wait for an answer from Redis before a call is refused. Any call may have to wait this long. */
  redisTimeoutMs: { kind: count(1, 60_000, 'milliseconds'), default: DEFAULT_REDIS_TIMEOUT_MS },
  /**
   * What becomes of calls under receipts with limits from before Redis may have lost counts. With `pass`, they are counted from
   * what it still has.
   */
  limitsAfterLoss: { kind: oneOf('refuse', 'pass'), default: 'refuse' },
  /** Replicas of Redis that must have the charge of a limit before its call is allowed. */
  redisWaitReplicas: { kind: count(0, 16), default: 0 },
  /** Whether a Redis with `appendonly no` may keep used invocations: after its restart, calls from before are refused. */
  redisMayForget: { kind: flag, default: false },
} satisfies Table;

function areRedisUrls(text: string): boolean {
  const urls = text.split(',').map((url) => url.trim());
  return urls.every((url) => /^rediss?:\/\/\S+$/.test(url) && URL.canParse(url));
}

/** Options of a verifier, all optional. */
export interface VerifierOptions extends GivenOptions<typeof VERIFIER_OPTIONS> {}

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
  const { options: settings, problems } = readOptions(options, VERIFIER_OPTIONS, true);
  const found = problems.length > 0 ? problems : findContradictions(settings, (option) => option);
  if (found.length > 0) throw new OptionsError(found);
  return settings;
}

/**
 * Finds options that contradict each other.
 *
 * @param nameOf returns the name under which the user knows an option
 */
export function findContradictions(settings: VerifierSettings, nameOf: (option: string) => string): string[] {
  const { revocationStore: store, revocationStorePath, revocationMinReplicas: replicas } = settings;
  const { statusListIssuer: issuer, statusListForm, statusListId } = settings;
  const [storeName, pathName] = [nameOf('revocationStore'), nameOf('revocationStorePath')];
  const [urlName, issuerName] = [nameOf('statusListBaseUrl'), nameOf('statusListIssuer')];
  const [formName, idName] = [nameOf('statusListForm'), nameOf('statusListId')];
  const problems: string[] = [];
  if (issuer !== undefined && settings.statusListBaseUrl === undefined)
    problems.push(
      `${issuerName} is set and there is no list to check: set ${urlName}, or unset ${issuerName}`,
    );
  if (issuer !== undefined && statusListForm === 'raw')
    problems.push(
      `${issuerName} is set and ${formName} is "raw", a list that nobody can sign: unset one of them`,
    );
  if ((statusListId ?? 'any') !== 'any' && statusListForm === 'raw')
    problems.push(`${idName} is set and ${formName} is "raw", a list without a name: unset one of them`);
  if (settings.tools !== undefined && settings.toolsFile !== undefined)
    problems.push(`${nameOf('tools')} and ${nameOf('toolsFile')} are both set, expected one of them`);
  if (settings.trustedRoots !== undefined && settings.trustedRootsFile !== undefined)
    problems.push(
      `${nameOf('trustedRoots')} and ${nameOf('trustedRootsFile')} are both set, expected one of them: add the first to the file`,
    );
  if (store === 'file' && revocationStorePath === undefined)
    problems.push(`${storeName} is "file" and ${pathName} is not set: name the file there`);
  if ((store === 'memory' || store === 'redis') && revocationStorePath !== undefined)
    problems.push(
      `${pathName} is set, and ${storeName} is "${store}", which would not read it: unset one of them` +
        (store === 'redis' ? '; `drs-verify revocations import <file>` moves a file to Redis' : ''),
    );
  if (replicas > 0 && store !== 'redis')
    problems.push(`${nameOf('revocationMinReplicas')} is ${replicas}, and ${storeName} is not "redis"`);
  return problems;
}
