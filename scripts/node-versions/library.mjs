// A verdict on and off the main thread, and the middleware in front of a handler.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createVerifier } from 'drs-verify';
import * as issue from 'drs-verify/issue';
import { drsMiddleware } from 'drs-verify/middleware';
import { makeCall } from './call.cjs';

const { args, bundle, toolServer, trustedRoots } = await makeCall(issue);
for (const workerThreads of [0, 1]) {
  const verifier = createVerifier({ workerThreads });
  const verdict = await verifier.verify(bundle, { body: args });
  await verifier.close();
  if (!verdict.valid || verdict.binding !== 'match') throw new Error(JSON.stringify(verdict));
}

const verifier = createVerifier({ workerThreads: 0 });
const guard = drsMiddleware({
  verifier,
  trustedRoots,
  serverIdentity: toolServer,
  replayStore: 'none',
  tool: 'search',
  command: '/mcp/tools/call',
});
const server = createServer((request, response) => guard(request, response, () => response.end('found')));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
const ask = async (/** @type {unknown} */ body) => {
  const headers = { 'Content-Type': 'application/json', 'X-DRS-Bundle': issue.encodeBundle(bundle) };
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  return `${response.status} ${await response.text()}`;
};
const allowed = await ask(args);
if (allowed !== '200 found') throw new Error(allowed);
const refused = await ask({ ...args, city: 'Genf' });
if (!refused.startsWith('403')) throw new Error(refused);
server.close();
server.closeAllConnections();
await verifier.close();
console.log(`Node ${process.versions.node}: verdicts and middleware`);
