import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openEngine } from '../../src/verifier/create-verifier.js';
import { readVerifierOptions } from '../../src/verifier/options.js';
import { toVerdictJson } from '../../src/verifier/verdict.js';

// The product's core behind node:http instead of uWebSockets.js.
const engine = await openEngine(readVerifierOptions({}));
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const answer = (status: number, json: string) => {
      response.writeHead(status, {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(json),
      });
      response.end(json);
    };
    const bundle = JSON.parse(Buffer.concat(chunks).toString()) as unknown;
    engine.verify({ bundle, body: null }).then(
      (outcome) => answer(200, toVerdictJson(outcome, false)),
      (error: unknown) => answer(500, JSON.stringify({ error: (error as Error).message })),
    );
  });
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
});
process.on('SIGTERM', () => process.exit(0));
