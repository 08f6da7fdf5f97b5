import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import path from 'node:path';
import { reasonOf } from '../redis/connection.js';
import { RedisLink } from '../redis/link.js';
import { needsOf } from '../revocation/store/redis-store.js';
import { FORGETTING } from '../usage/redis-store.js';
import { fetchStatusList } from '../revocation/lists/fetch-status-list.js';
import { readStatusList } from '../revocation/lists/read-status-list.js';
import type { Configuration } from '../service/configuration/configuration.js';
import { loadGrpc } from '../service/grpc/open.js';
import { loadFrontEnd } from '../service/http/load-front-end.js';
import { readLinesAt } from '../trust/followed-lines.js';
import { ROOTS, TOOLS } from '../trust/line-files.js';
import { readRoutes } from '../service/routes/served-routes.js';

const { R_OK, W_OK } = constants;

/**
 * Tries what a valid configuration names: the front end, optional packages, files, folders, Redis and the status list. Each
 * attempt is bounded in time. Changes nothing: creates no file, takes no lock, listens on no port, and writes nothing to
 * Redis.
 *
 * @returns what would keep the service from starting; empty if nothing does
 */
export async function findStartProblems(configuration: Configuration): Promise<string[]> {
  const { frontEnd, gateRoutes, grpcPort, listen, decisionLog } = configuration;
  const {
    revocationStorePath: store,
    trustedRootsFile: roots,
    toolsFile: tools,
    statusListBaseUrl: list,
  } = configuration;
  const { replayProtection, gateReplay, revocationStore } = configuration;
  const usesRedis = [replayProtection, gateReplay, revocationStore].includes('redis');
  const found = await Promise.all([
    problemOf('FRONT_END', () => loadFrontEnd(frontEnd)),
    grpcPort === undefined ? null : problemOf('GRPC_PORT', loadGrpc),
    usesRedis ? problemOf('REDIS_URL', () => tryRedis(configuration)) : null,
    list === undefined ? null : problemOf('STATUS_LIST_BASE_URL', () => tryList(list, configuration)),
    store === undefined ? null : problemOf('REVOCATION_STORE_PATH', () => canKeep(store, R_OK | W_OK)),
    decisionLog === undefined || decisionLog === '-'
      ? null
      : problemOf('DECISION_LOG', () => canKeep(decisionLog, W_OK)),
    problemOf('GATE_ROUTES', () => readRoutes(gateRoutes)),
    roots === undefined ? null : problemOf('TRUSTED_ROOTS_FILE', () => readLinesAt(ROOTS, roots)),
    tools === undefined ? null : problemOf('TOOLS_FILE', () => readLinesAt(TOOLS, tools)),
    listen === undefined ? null : problemOf('LISTEN', () => access(path.dirname(listen.path), W_OK)),
  ]);
  return found.filter((problem) => problem !== null);
}

async function problemOf(variable: string, attempt: () => unknown): Promise<string | null> {
  try {
    await attempt();
    return null;
  } catch (error) {
    const reason = reasonOf(error);
    return /^[A-Z_]+ is /.test(reason) || reason.startsWith(`${variable} `)
      ? reason
      : `${variable}: ${reason}`;
  }
}

const TRY_MS = 5_000;

/** Looks at Redis as stores do, but writes nothing. */
async function tryRedis({
  redisUrl: url,
  revocationStore,
  revocationMinReplicas,
  replayProtection,
  gateReplay,
  redisMayForget,
}: Configuration): Promise<void> {
  const hasReplays = replayProtection === 'redis' || gateReplay === 'redis';
  const { needsFile: ofRevocations } = needsOf({ url, minReplicas: revocationMinReplicas });
  const needsFile =
    (revocationStore === 'redis' && ofRevocations) || (hasReplays && !redisMayForget && FORGETTING);
  const write = () => Promise.resolve();
  const link = new RedisLink({ url, keeps: 'what it is told', needsFile, write });
  try {
    await link.open();
    if (link.replicas < revocationMinReplicas)
      throw new Error(
        `REVOCATION_MIN_REPLICAS is ${revocationMinReplicas}, and the primary has ${link.replicas} replicas: nothing could be ` +
          'revoked; start more, or lower it',
      );
  } finally {
    link.close();
  }
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

/** Whether a file can be used, or created if it is missing. */
async function canKeep(file: string, mode: number): Promise<void> {
  const found = await stat(file).catch(() => null);
  if (found === null) await access(path.dirname(file), W_OK);
  else if (found.isFile()) await access(file, mode);
  else throw new Error(`${file} is no regular file, expected one`);
}
