import type { Logger } from 'pino';
import type { Configuration } from '../service/configuration/configuration.js';
import type { Closers } from '../service/closers.js';
import type { Core } from '../service/core.js';
import { errorAnswer } from '../service/http/exchange.js';
import { cannotListen } from '../service/http/front-end.js';
import { openNode } from '../service/http/node/node.js';
import { Server } from '../service/http/serve.js';
import { divideForGuard } from '../service/load/connections.js';
import { approveRows } from '../service/routes/approve-route.js';
import { hostsOf } from './http-relay.js';

/**
 * Serves the page of approvals for a guard over stdio, which has no listener: to this machine, at the port of its origin.
 *
 * @throws Error if it cannot listen there
 */
export async function openApprovePage(
  core: Core,
  configuration: Configuration,
  log: Logger,
  opened: Closers,
): Promise<void> {
  const { approvals } = core.gate;
  if (approvals === null) return;
  const nothing = errorAnswer(404, 'there is nothing at this path');
  const unknown = { endpoint: 'other', methods: [], rateLimit: null, serve: () => nothing } as const;
  const hosts = hostsOf('localhost', []);
  const server = new Server({ ...core, configuration, log, tracing: null, hosts });
  const frontEnd = openNode({
    handle: server.handlerOf({ routes: new Map(approveRows({ ...core, configuration, log })), unknown }),
    isRefusing: () => false,
    connections: divideForGuard(configuration, log).http,
    requestTimeoutSecs: configuration.requestTimeoutSecs,
    certificate: null,
  });
  opened.add(frontEnd);
  const port = Number(new URL(approvals.origin).port || 80);
  const address = { host: '127.0.0.1', port, isShared: false };
  await frontEnd.listen(address).catch(() => {
    throw cannotListen(address, 'APPROVALS_URL');
  });
}
