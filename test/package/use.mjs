// Run by scripts/check-package.mjs in a project that has installed the package: its threads must be found there, too.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';
import { createVerifier } from 'drs-verify';
import {
  createBundle,
  createConsent,
  generateKey,
  issueInvocation,
  issueRootDelegation,
} from 'drs-verify/issue';
const [alice, bot] = [generateKey(), generateKey()];
const delegation = {
  key: alice,
  audience: bot.did,
  command: '/mcp/tools/call',
  policy: { allowed_tools: ['search'] },
  consent: createConsent({
    text: 'Bot may search.',
    locale: 'en',
    method: 'explicit-ui-click',
    sessionId: 's-1',
  }),
};
const root = await issueRootDelegation(delegation);
const invocation = await issueInvocation({
  key: bot,
  chain: [root],
  args: { tool: 'search' },
  toolServer: 'https://tools.example',
});
for (const workerThreads of [0, 1]) {
  const verifier = createVerifier({ workerThreads });
  const verdict = await verifier.verify(createBundle({ receipts: [root], invocation }), {
    body: { tool: 'search' },
  });
  await verifier.close();
  if (!verdict.valid || verdict.binding !== 'match') throw new Error(JSON.stringify(verdict));
}

// A status list that is long enough to be read on a thread of its own.
const bits = randomBytes(600_000);
bits[0] = 0xff;
const list = JSON.stringify({
  type: ['VerifiableCredential', 'BitstringStatusListCredential'],
  issuer: 'https://issuer.example',
  credentialSubject: {
    type: 'BitstringStatusList',
    statusPurpose: 'revocation',
    encodedList: 'u' + gzipSync(bits).toString('base64url'),
  },
});
const server = createServer((_, response) =>
  response.writeHead(200, { 'content-type': 'application/vc' }).end(list),
);
await once(server.listen(0, '127.0.0.1'), 'listening');
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
const verifier = createVerifier({
  statusListBaseUrl: `http://127.0.0.1:${port}`,
  // It has no name.
  statusListId: 'any',
  statusFetchTimeoutMs: 10_000,
  workerThreads: 0,
});
const revocable = await issueRootDelegation({ ...delegation, statusListIndex: 7 });
const call = await issueInvocation({
  key: bot,
  chain: [revocable],
  args: { tool: 'search' },
  toolServer: 'https://tools.example',
});
const revoked = await verifier.verify(createBundle({ receipts: [revocable], invocation: call }));
await verifier.close();
server.close();
if (revoked.error?.code !== 'RECEIPT_REVOKED') throw new Error(JSON.stringify(revoked));
