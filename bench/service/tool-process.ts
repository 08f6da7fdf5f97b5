import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { GrpcCaller, toCheck } from '../load/grpc.js';
import type { Underway } from '../load/open-loop-core.js';

// A tool server that answers at once, and says which depth its gate has told it: over stdio, or over HTTP, where it asks a
// gate at GATE_PORT itself, as Envoy's `ext_authz` does.
const answerOf = (id: unknown, depth: string | number = 'none') =>
  JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: `depth ${depth}` }] } });

const gatePort = Number(process.env['GATE_PORT'] ?? 0);

/** @returns `undefined` where nobody tells it */
async function depthOf(request: IncomingMessage): Promise<string | undefined> {
  const body = await text(request);
  if (gatePort === 0) return request.headers['x-drs-chain-depth'] as string | undefined;
  const head = await new Promise<string>((resolve) => {
    const answered = (_: Underway, __: number, ___: string, headers: string) => resolve(headers);
    const caller = new GrpcCaller(gatePort, { answered, broken: () => resolve('') });
    caller.send(toCheck(body, String(request.headers['x-drs-bundle'])), {} as Underway);
  });
  return /x-drs-chain-depth: (\d+)/i.exec(head)?.[1];
}

type Call = { id: unknown; params: { _meta: Record<string, { chain_depth?: number } | undefined> } };

if (process.argv[2] === 'stdio')
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, params } = JSON.parse(line) as Call;
    process.stdout.write(`${answerOf(id, params._meta['xyz.okeyamy.drs/context']?.chain_depth)}\n`);
  });
else {
  // Without a proxy in front, the header with the bundle gets here.
  const server = createServer(
    { maxHeaderSize: 64 * 1024, keepAliveTimeout: 600_000 },
    (request, response) => {
      response.setHeader('Content-Type', 'application/json');
      void depthOf(request).then((depth) => response.end(answerOf(7, depth)));
    },
  );
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo;
    process.stdout.write(`${JSON.stringify({ port })}\n`);
  });
}
