import type { Logger } from 'pino';
import { announcementOf } from '../../gate/mcp.js';
import { variableOf } from '../configuration/environment.js';
import { SECRETS, type Configuration } from '../configuration/variables.js';
import { Opened, openCore } from '../core.js';
import { endLike, startChild } from '../../stdio/child.js';
import { StdioGuard } from './stdio.js';

/**
 * Runs an MCP server that speaks over stdio, behind a gate: this process takes its place. Resolves when the server has
 * ended; this process then ends as it did.
 *
 * @throws Error if a store, a log or the server cannot be opened
 */
export async function runStdioGuard(
  configuration: Configuration,
  [command, ...args]: readonly [string, ...string[]],
  log: Logger,
): Promise<void> {
  const opened = new Opened();
  try {
    const { gate } = await openCore(configuration, log, opened);
    const child = await startChild(command, args, environmentOfServer(configuration));
    const parts = {
      ...{ decider: gate.decider, log, maxBodyBytes: configuration.maxBodyBytes },
      announcement: announcementOf({
        methods: configuration.gateMethods,
        passMethods: new Set(configuration.gatePassMethods),
        serverIdentity:
          configuration.serverIdentity === 'any' ? null : (configuration.serverIdentity ?? null),
      }),
    };
    const { stdin: fromClient, stdout: toClient } = process;
    const guard = new StdioGuard(parts, { fromClient, toClient, ...child.streams });
    guard.serveClient().catch((error: unknown) => {
      log.fatal({ err: error }, 'the messages of the client cannot be read any more');
      child.kill();
    });
    const [ending] = await Promise.all([child.ended, guard.serveServer()]);
    process.stdin.destroy();
    await opened.close();
    endLike(ending);
  } catch (error) {
    process.stdin.destroy();
    await opened.close();
    throw error;
  }
}

/** What the server gets of this process' environment: all but the secrets of the gate. */
function environmentOfServer({
  gateReplay,
  revocationStore,
}: Pick<Configuration, 'gateReplay' | 'revocationStore'>): NodeJS.ProcessEnv {
  const usesRedis = gateReplay === 'redis' || revocationStore === 'redis';
  // The server may have a Redis of its own.
  const secrets = SECRETS.filter((option) => option !== 'redisUrl' || usesRedis).map(variableOf);
  const withheld = new Set(secrets.flatMap((name) => [name, `${name}_FILE`]));
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !withheld.has(name)));
}
