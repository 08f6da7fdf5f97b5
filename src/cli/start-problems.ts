import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { readPage } from '../approval/page.js';
import { reasonOf, rejectAfter } from '../redis/connection.js';
import { RedisLink } from '../redis/link.js';
import { needsOf } from '../revocation/store/redis-store.js';
import { readEntries } from '../revocation/store/redis-transfer.js';
import { requireOwnFolder } from '../usage/file-store.js';
import { FORGETTING } from '../usage/redis-store.js';
import { fetchStatusList } from '../revocation/lists/fetch-status-list.js';
import { readStatusList } from '../revocation/lists/read-status-list.js';
import { addressOf, type Configuration } from '../service/configuration/configuration.js';
import { loadGrpc } from '../service/grpc/open.js';
import { loadFrontEnd } from '../service/http/load-front-end.js';
import { readLinesAt } from '../trust/followed-lines.js';
import { ROOTS, TOOLS } from '../trust/line-files.js';
import { readRoutes } from '../service/routes/served-routes.js';

const { R_OK, W_OK, X_OK } = constants;

/**
 * Tries what a valid configuration names: the front end, optional packages, addresses, files, folders, Redis and the status
 * list. Each attempt is bounded in time. Leaves nothing: it creates no file, takes no lock, and what it writes to Redis is gone
 * when it ends. Of an address it takes any port, since that of the service may be in use by the one before.
 *
 * @param state the folder in which a guard keeps used calls
 * @returns what would keep the service from starting; empty if nothing does
 */
export async function findStartProblems(configuration: Configuration, state?: string): Promise<string[]> {
  const { host, listen, decisionLog, replayProtection, gateReplay, revocationStore } = configuration;
  const hasRedis = [replayProtection, gateReplay, revocationStore].includes('redis');
  const log = decisionLog === '-' ? undefined : decisionLog;
  const found = await Promise.all([
    problemOf('FRONT_END', configuration.frontEnd, loadFrontEnd),
    problemOf('HOST', listen === undefined ? host : undefined, canListen),
    problemOf('METRICS_ADDR', addressOf(configuration.metricsAddr ?? '')?.host, canListen),
    problemOf('GRPC_PORT', configuration.grpcPort, loadGrpc),
    problemOf('REDIS_URL', hasRedis ? configuration : undefined, tryRedis),
    problemOf('STATUS_LIST_BASE_URL', configuration.statusListBaseUrl, (url) => tryList(url, configuration)),
    problemOf('REVOCATION_STORE_PATH', configuration.revocationStorePath, async (file) => {
      if (await canKeep(file, R_OK | W_OK)) await readEntries(file);
    }),
    problemOf('DECISION_LOG', log, (file) => canKeep(file, W_OK)),
    problemOf('GATE_ROUTES', configuration.gateRoutes, readRoutes),
    problemOf('TRUSTED_ROOTS_FILE', configuration.trustedRootsFile, (place) => readLinesAt(ROOTS, place)),
    problemOf('TOOLS_FILE', configuration.toolsFile, (place) => readLinesAt(TOOLS, place)),
    problemOf('APPROVALS_URL', configuration.approvalsUrl, requirePage),
    problemOf('LISTEN', listen, (socket) => access(path.dirname(socket.path), W_OK)),
    problemOf('--state', state, canKeepIn),
  ]);
  return found.filter((problem) => problem !== null);
}

/**
 * What keeps nothing from starting: nobody could say yes at `APPROVALS_URL`. The first approver needs a service that runs, to register.
 *
 * @returns what is missing; empty also if the file of roots cannot be read, which is a problem
 */
export async function findStartWarnings({
  approvalsUrl,
  trustedRootsFile,
}: Configuration): Promise<string[]> {
  if (approvalsUrl === undefined) return [];
  const roots =
    trustedRootsFile === undefined ? null : await readLinesAt(ROOTS, trustedRootsFile).catch(() => undefined);
  if (roots === undefined) return [];
  for (const { approval } of roots?.values() ?? [])
    if (approval?.approvers.some(({ origin }) => origin === approvalsUrl) === true) return [];
  return [
    `APPROVALS_URL is "${approvalsUrl}", and no approver in TRUSTED_ROOTS_FILE has this origin, so that nobody can say yes: ` +
      `put the line that ${approvalsUrl}/approve/register shows into the entry of a principal`,
  ];
}

/** Tries what a variable names, if it names something. @returns what is wrong with it */
async function problemOf<T>(
  variable: string,
  value: T | undefined,
  attempt: (value: T) => unknown,
): Promise<string | null> {
  try {
    if (value !== undefined) await attempt(value);
    return null;
  } catch (error) {
    const reason = reasonOf(error);
    const isNamed = /^[A-Z_]+ is /.test(reason) || reason.startsWith(`${variable} `);
    return isNamed ? reason : `${variable}: ${reason}`;
  }
}

const TRY_MS = 5_000;

/** What records and counts used invocations. The key goes at once; where a command is refused, in a second. */
const RECORD = `
redis.call('SET', KEYS[1], '1', 'PX', 1000)
redis.call('INCR', KEYS[1])
redis.call('PEXPIREAT', KEYS[1], 1)
redis.call('HMGET', KEYS[1], 'calls')
redis.call('HINCRBY', KEYS[1], 'calls', 1)
redis.call('PEXPIREAT', KEYS[1], 1)
`;
/** What keeps questions and answers. Each key goes at once; where a command is refused, in a second. */
const QUESTIONS = `
redis.call('SET', KEYS[1], '1', 'PX', 1000)
redis.call('GET', KEYS[1])
redis.call('INCRBY', KEYS[1], 1)
redis.call('DECRBY', KEYS[1], 1)
redis.call('PEXPIRE', KEYS[1], 1000)
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 1, 'x')
redis.call('PEXPIRE', KEYS[1], 1000)
redis.call('ZCOUNT', KEYS[1], 1, 2)
redis.call('ZRANGEBYSCORE', KEYS[1], 1, 2)
redis.call('ZCARD', KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 2, 3)
redis.call('ZREM', KEYS[1], 'x')
`;
const [RECORD_KEY, STREAM_KEY] = ['drs:replay:check', '{drs:revocations}:check'];
const QUESTIONS_KEY = 'drs:approve:{1}:check';

/** Looks at Redis as stores do, and sends what they do: the user may lack a right, or the primary take no writes. */
async function tryRedis(configuration: Configuration): Promise<void> {
  const { redisUrl: url, revocationMinReplicas: minReplicas, redisWaitReplicas } = configuration;
  const hasRevocations = configuration.revocationStore === 'redis';
  const { replayProtection, gateReplay, gateMode, approvalsUrl } = configuration;
  const hasReplays = [replayProtection, gateReplay].includes('redis');
  const hasQuestions = approvalsUrl !== undefined && gateReplay === 'redis' && gateMode === 'enforce';
  const needsFile =
    (hasRevocations && needsOf({ url, minReplicas }).needsFile) ||
    (hasReplays && !configuration.redisMayForget && FORGETTING);
  const write = () => Promise.resolve();
  const link = new RedisLink({ url, keeps: 'what it is told', needsFile, write });
  try {
    const connection = await link.open();
    const send = async (what: string, key: string, ...command: string[]) => {
      await rejectAfter(TRY_MS, connection.send(key, command)).catch((error: unknown) => {
        throw new Error(`${link.place} refuses what ${what} need: ${reasonOf(error)}`, { cause: error });
      });
    };
    if (hasReplays) await send('used invocations', RECORD_KEY, 'EVAL', RECORD, '1', RECORD_KEY);
    if (hasQuestions) await send('questions', QUESTIONS_KEY, 'EVAL', QUESTIONS, '1', QUESTIONS_KEY);
    // To a stream that is not there, this adds nothing.
    if (hasRevocations)
      await send('revocations', STREAM_KEY, 'XADD', STREAM_KEY, 'NOMKSTREAM', '*', 'e', '-');
    for (const [variable, wanted, what] of [
      ['REVOCATION_MIN_REPLICAS', minReplicas, 'nothing could be revoked'],
      ['REDIS_WAIT_REPLICAS', hasReplays ? redisWaitReplicas : 0, 'calls under limits would be refused'],
    ] as const)
      if (link.replicas < wanted)
        throw new Error(
          `${variable} is ${wanted}, and the primary has ${link.replicas} replicas: ${what}; start more, or lower it`,
        );
  } finally {
    link.close();
  }
}

/** Whether the page of approvals is there, which a build of its own makes. */
function requirePage(): void {
  let files = 0;
  try {
    files = readPage().size;
  } catch {
    // Then there is none of it.
  }
  // The page, and what it loads.
  if (files < 2)
    throw new Error(
      'the files of its page are missing: install the package anew, or run `npm run build:web`',
    );
}

async function tryList(url: string, configuration: Configuration): Promise<void> {
  const {
    statusListForm: form,
    statusListId: id = url,
    statusListIssuer: issuer,
    clockSkewSecs,
  } = configuration;
  const fetched = await fetchStatusList(new URL(url), { signal: AbortSignal.timeout(TRY_MS) });
  // It answers so only to who has a copy.
  if (fetched === 'not_modified') throw new Error('it answers 304, expected a list');
  const { body, contentType } = fetched;
  await readStatusList(body, contentType, { form, id, issuer, nowMs: Date.now(), clockSkewSecs });
}

/** Whether a file can be used, or created if it is missing. @returns whether it is there */
async function canKeep(file: string, mode: number): Promise<boolean> {
  const found = await stat(file).catch(() => null);
  if (found?.isFile() === false) throw new Error(`${file} is no regular file, expected one`);
  await (found === null ? access(path.dirname(file), W_OK) : access(file, mode));
  return found !== null;
}

/** Whether a folder can be used, or created if it is missing. */
async function canKeepIn(folder: string): Promise<void> {
  for (const at of [folder, path.dirname(folder)])
    try {
      await access(at, R_OK | W_OK | X_OK);
      if (at === folder) await requireOwnFolder(folder);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  throw new Error(`there is no folder in which ${folder} could be created`);
}

async function canListen(host: string): Promise<void> {
  const server = createServer();
  const listening = new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, host, resolve);
  });
  try {
    await rejectAfter(TRY_MS, listening);
  } finally {
    server.close();
  }
}
