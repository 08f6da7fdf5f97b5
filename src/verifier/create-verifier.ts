import { createMemoryReplayStore, openRedisReplayStore, type ReplayStore } from '../usage/index.js';
import {
  openRevocation,
  readRevocationRequest,
  type RevocationJson,
  type RevocationLog,
  type RevocationObserver,
} from '../revocation/index.js';
import { InThreadVerifier } from '../signatures/in-thread.js';
import type { SignatureVerifier } from '../signatures/signature-verifier.js';
import { WebKeys } from '../trust/did-web.js';
import { FollowedLines } from '../trust/followed-lines.js';
import { ROOTS, TOOLS, type LinesKind } from '../trust/line-files.js';
import type { Root } from '../verify/parts.js';
import type { Tool } from '../verify/tools.js';
import { verifyWith, type VerifyOptions } from './call-options.js';
import { Engine, type EngineObserver, type Lines } from './engine.js';
import { readVerifierOptions, type VerifierOptions, type VerifierSettings } from './options.js';
import { givenRoots, givenTools } from './rules.js';
import type { Verdict } from './verdict.js';

/** Verifies bundles in this process. */
export interface Verifier {
  /**
   * Verifies a bundle in blocks A to F.
   *
   * @param bundle a bundle as `JSON.parse` gives it; anything at all may be passed
   * @returns the verdict. It shares no objects with this verifier, so it may be changed
   * @throws TypeError for an unknown option
   * @throws the error with which the revocation store failed to open, or an error for a bug in the verifier. Bad input
   *   never throws: the result is an invalid verdict.
   */
  verify(bundle: unknown, options?: VerifyOptions): Promise<Verdict>;
  /**
   * Revokes locally. Resolves when it is recorded; the next verification respects it.
   *
   * @param what a status list index, or an object as `POST /admin/revoke` takes it
   * @throws RangeError if it is neither
   * @example await verifier.revoke({ did: 'did:key:z6Mk…', reason: 'laptop stolen' });
   */
  revoke(what: number | RevocationJson): Promise<void>;
  /** Resolves when the revocation store is open; rejects if it cannot be opened. */
  opened(): Promise<void>;
  /** Lets running verifications finish, then ends the threads. */
  close(): Promise<void>;
}

/**
 * Creates a verifier in this process. Its options correspond to the service's environment variables.
 *
 * @throws OptionsError with all problems of the options
 * @example
 * const verifier = createVerifier({ workerThreads: 0 });
 * const verdict = await verifier.verify(bundle, { body: { tool: 'search', query: 'tea' } });
 * if (!verdict.valid) console.error(verdict.error.code, verdict.error.message);
 * await verifier.close();
 */
export function createVerifier(options: VerifierOptions = {}): Verifier {
  const engine = openEngine(readVerifierOptions(options));
  const parts = engine.then((opened) => opened.parts);
  // Each use rethrows the error. This handler only prevents an unhandled rejection, which would end the process.
  parts.catch(() => undefined);
  return {
    verify: verifyWith(() => parts),
    revoke: async (what) => {
      const asked = readRevocationRequest(typeof what === 'number' ? { status_list_index: what } : what);
      if (typeof asked === 'string') throw new RangeError(`nothing was revoked: ${asked}`);
      await (await engine).revocation.revoke(asked);
    },
    opened: () => engine.then(nothing),
    close: async () => {
      const opened = await engine.catch(() => null);
      await opened?.close();
    },
  };
}

const nothing = () => undefined;
const silent: RevocationLog = { info: nothing, warn: nothing, error: nothing };

export async function openEngine(
  settings: VerifierSettings,
  {
    log = silent,
    observer = {},
    maxWaiting,
  }: { log?: RevocationLog; observer?: RevocationObserver & EngineObserver; maxWaiting?: number } = {},
): Promise<Engine> {
  const { workerThreads, statusListBaseUrl: url } = settings;
  // Loaded only for workers: it loads Piscina, which takes a twentieth of the start.
  const pool = workerThreads === 0 ? null : await import('../signatures/pool.js');
  const redis = { url: settings.redisUrl, minReplicas: settings.revocationMinReplicas };
  const keys = new WebKeys({ log });
  const revocation = await openRevocation({
    storePath: settings.revocationStorePath,
    redis: settings.revocationStore === 'redis' ? redis : undefined,
    ...(url !== undefined && {
      statusList: {
        url,
        id: settings.statusListId,
        issuer: settings.statusListIssuer,
        form: settings.statusListForm,
        ttlSecs: settings.statusCacheTtlSecs,
        maxStaleSecs: settings.statusMaxStaleSecs,
        maxWaitMs: settings.statusFetchTimeoutMs,
        clockSkewSecs: settings.clockSkewSecs,
      },
    }),
    rootLists: {
      ttlSecs: settings.statusCacheTtlSecs,
      maxWaitMs: settings.statusFetchTimeoutMs,
      clockSkewSecs: settings.clockSkewSecs,
      maxWaiting,
      keys,
    },
    maxEntries: settings.revocationMaxEntries,
    log,
    observer,
  });
  let replays: ReplayStore | null = null;
  let roots: Lines<Root> | null = null;
  let tools: Lines<Tool> | null = null;
  try {
    replays = await openReplays(settings.replayProtection, settings, log, 'verify');
    const deps = { log, observer };
    const follow = () => keys.follow(roots?.entries() ?? []);
    roots = await openLines(ROOTS, settings.trustedRootsFile, givenRoots(settings), deps, follow);
    follow();
    tools = await openLines(TOOLS, settings.toolsFile, givenTools(settings), deps);
    const signatures = pool === null ? new InThreadVerifier() : startPool(pool, workerThreads, log, observer);
    return new Engine(settings, signatures, { roots, tools, keys }, revocation, replays, observer);
  } catch (error) {
    keys.close();
    for (const lines of [roots, tools]) if (lines instanceof FollowedLines) lines.close();
    await replays?.close();
    await revocation.close();
    throw error;
  }
}

/** @throws Error if the threads cannot be started */
function startPool(
  { PoolVerifier }: typeof import('../signatures/pool.js'),
  threads: number,
  log: RevocationLog,
  observer: EngineObserver,
): SignatureVerifier {
  const workerDied = (error: Error) => {
    log.error({ err: error }, 'a signature worker ended on its own; its work was done on the main thread');
    observer.workerDied?.(error);
  };
  const workersBack = () => log.info({}, 'the signature workers are back, and verify from now on');
  try {
    return new PoolVerifier(threads, { ...observer, workerDied, workersBack });
  } catch (error) {
    const reason = (error as Error).message;
    throw new Error(
      `the ${threads} threads for signatures cannot be started (${reason}): allow this process more threads (ulimit -u, pids.max), or lower WORKER_THREADS`,
      { cause: error },
    );
  }
}

/**
 * What an operator says, from a file that is followed, or as it was given; `null` if nothing is said.
 *
 * @param onChange called when other lines are in force
 * @throws LinesError with all defects of a file
 */
async function openLines<T>(
  kind: LinesKind<T>,
  place: string | undefined,
  given: ReadonlyMap<string, T> | null,
  { log, observer }: { log: RevocationLog; observer: EngineObserver },
  onChange?: () => void,
): Promise<Lines<T> | null> {
  if (place === undefined) return given;
  return FollowedLines.open(kind, place, {
    log,
    onRead: (outcome) => {
      observer.linesRead?.(kind.fact, outcome);
      if (outcome === 'loaded') onChange?.();
    },
  });
}

/**
 * Opens a replay store.
 *
 * @param kind where used invocations are recorded; `off` and `undefined`: nowhere
 * @param scope whose they are, for the log: a service has two stores
 * @returns `null` if they are recorded nowhere
 * @throws ReplayStoreError if Redis cannot be used
 */
export async function openReplays(
  kind: 'memory' | 'redis' | 'off' | undefined,
  settings: VerifierSettings,
  given: RevocationLog,
  scope: 'verify' | 'gate',
): Promise<ReplayStore | null> {
  if (kind === undefined || kind === 'off') return null;
  const log: RevocationLog = {
    info: (facts, message) => given.info({ scope, ...facts }, message),
    warn: (facts, message) => given.warn({ scope, ...facts }, message),
    error: (facts, message) => given.error({ scope, ...facts }, message),
  };
  if (kind === 'memory') return createMemoryReplayStore({ maxEntries: settings.replayMaxEntries, log });
  const { redisUrl: url, redisTimeoutMs: timeoutMs, limitsAfterLoss } = settings;
  const { redisMayForget: mayForget, redisWaitReplicas: waitReplicas } = settings;
  return openRedisReplayStore({ url, timeoutMs, limitsAfterLoss, mayForget, waitReplicas, log });
}
