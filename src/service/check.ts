import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import path from 'node:path';
import { connectRedis, reasonOf } from '../redis/connection.js';
import type { Configuration } from './configuration/configuration.js';
import { loadGrpc } from './grpc/open.js';
import { loadFrontEnd } from './http/front-end.js';
import { readTrustedRoots } from '../trust/trusted-roots.js';
import { readRoutes } from './routes/served-routes.js';

const { R_OK, W_OK } = constants;

/**
 * Tries what a valid configuration names: the front end, optional packages, files, folders and Redis. Each
 * attempt is bounded in time. Changes nothing: creates no file, takes no lock, listens on no port, and writes nothing to
 * Redis.
 *
 * @returns what would keep the service from starting; empty if nothing does
 */
export async function findStartProblems(configuration: Configuration): Promise<string[]> {
  const { frontEnd, gateRoutes, grpcPort, listen, decisionLog, redisUrl } = configuration;
  const { revocationStorePath: store, trustedRootsFile: roots } = configuration;
  const { replayProtection, gateReplay, revocationStore } = configuration;
  const usesRedis = [replayProtection, gateReplay, revocationStore].includes('redis');
  const found = await Promise.all([
    problemOf('FRONT_END', () => loadFrontEnd(frontEnd)),
    grpcPort === undefined ? null : problemOf('GRPC_PORT', loadGrpc),
    usesRedis ? problemOf('REDIS_URL', async () => (await connectRedis(redisUrl)).destroy()) : null,
    store === undefined ? null : problemOf('REVOCATION_STORE_PATH', () => canKeep(store, R_OK | W_OK)),
    decisionLog === undefined || decisionLog === '-'
      ? null
      : problemOf('DECISION_LOG', () => canKeep(decisionLog, W_OK)),
    problemOf('GATE_ROUTES', () => readRoutes(gateRoutes)),
    roots === undefined ? null : problemOf('TRUSTED_ROOTS_FILE', () => readTrustedRoots(roots)),
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
    return reason.startsWith(`${variable} `) ? reason : `${variable}: ${reason}`;
  }
}

/** Whether a file can be used, or created if it is missing. */
async function canKeep(file: string, mode: number): Promise<void> {
  const found = await stat(file).catch(() => null);
  if (found === null) await access(path.dirname(file), W_OK);
  else if (found.isFile()) await access(file, mode);
  else throw new Error(`${file} is no regular file, expected one`);
}
