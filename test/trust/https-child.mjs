// A network of its own with `issuer.names.test` on a public address: a real server of TLS, asked by the built verifier.
// did-web-tls.test.ts starts it in a namespace. Reads what to do from standard input; writes the codes of verdicts.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { createVerifier } from '../../dist/index.js';

/** @typedef {{ certFile: string, keyFile: string, document: string, rows: { did: string }[][], bundle: unknown }} Work */
const { certFile, keyFile, document, rows, bundle } = /** @type {Work} */ (
  JSON.parse(readFileSync(0, 'utf8'))
);
/** @type {(string | undefined)[]} */
const asked = [];
const server = createServer(
  { cert: readFileSync(certFile), key: readFileSync(keyFile) },
  (request, response) => {
    asked.push(`${request.socket.localAddress} ${request.headers.host}${request.url}`);
    response.end(document);
  },
);
server.listen(443, '::');
await once(server, 'listening');
const codes = [];
for (const trustedRoots of rows) {
  const verifier = createVerifier({ workerThreads: 0, trustedRoots });
  const verdict = await verifier.verify(bundle);
  codes.push(verdict.valid ? 'valid' : verdict.error.code);
  await verifier.close();
}
console.log(JSON.stringify({ codes, asked }));
process.exit();
