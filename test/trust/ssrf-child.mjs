// A network of its own, in which every address is this process: a name server, and a server of TLS that says at which address
// it was asked. safe-fetch.test.ts starts it in a namespace. Reads rows from standard input, one JSON text; writes outcomes.
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, request } from 'node:https';
import { fetchBounded, FetchError } from '../../dist/trust/safe-fetch.js';

/** @typedef {{ url: string, addresses?: readonly string[], isNaive?: boolean }} Row */
const { rows, certFile, keyFile } = /** @type {{ rows: Row[], certFile: string, keyFile: string }} */ (
  JSON.parse(readFileSync(0, 'utf8'))
);

// Names and their addresses: those that stand before `.names.test`, as `10-1-2-3--__1`; `rebind--…` changes with each question.
/** @type {Map<string, number>} */
const asked = new Map();
function addressesOf(/** @type {string} */ name, /** @type {number} */ type) {
  const [first = '', ...others] = name.replace(/\.names\.test$/, '').split('--');
  const turn = asked.get(`${name} ${type}`) ?? 0;
  asked.set(`${name} ${type}`, turn + 1);
  const all = first === 'rebind' ? [others[Math.min(turn, others.length - 1)] ?? ''] : [first, ...others];
  return all
    .map((text) => (text.includes('_') ? text.replaceAll('_', ':') : text.replaceAll('-', '.')))
    .filter((address) => address.includes(':') === (type === 28));
}

function bytesOf(/** @type {string} */ address) {
  if (!address.includes(':')) return Buffer.from(address.split('.').map(Number));
  const [before = [], after = []] = address.split('::').map((text) => text.split(':').filter(Boolean));
  const zeros = '0'.repeat(8 - before.length - after.length).split('');
  const bytes = Buffer.alloc(16);
  [...before, ...zeros, ...after].forEach((group, at) => bytes.writeUInt16BE(parseInt(group, 16), 2 * at));
  return bytes;
}

const names = createSocket('udp4');
names.on('message', (question, from) => {
  const labels = [];
  let at = 12;
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = question.readUInt16BE(at + 1);
  const end = at + 5;
  const found = addressesOf(labels.join('.').toLowerCase(), type).map(bytesOf);
  const head = Buffer.alloc(12);
  question.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(found.length, 6);
  const answers = found.flatMap((bytes) => {
    // The name of the question, the type, the class IN, 0 s, the length.
    const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length]);
    return [record, bytes];
  });
  names.send(Buffer.concat([head, question.subarray(12, end), ...answers]), from.port, from.address);
});
names.bind(53, '127.0.0.1');
await once(names, 'listening');

/** The addresses at which somebody connected. */
/** @type {(string | undefined)[]} */
let met = [];
/** @type {import('node:http').RequestListener} */
const answer = (asking, response) => {
  const { pathname } = new URL(asking.url ?? '', 'http://x');
  if (pathname.startsWith('/to/')) {
    response.writeHead(302, { location: decodeURIComponent(pathname.slice(4)) }).end();
    return;
  }
  response.end(asking.socket.localAddress);
};
const tls = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, answer);
const plain = createHttpServer(answer);
for (const server of [tls, plain]) {
  server.on('connection', (/** @type {import('node:net').Socket} */ socket) => met.push(socket.localAddress));
  server.listen(server === tls ? 443 : 80, '::');
  await once(server, 'listening');
}

/** What those do who look first, and then fetch by the name. */
async function naive(/** @type {URL} */ url) {
  await lookup(url.hostname);
  const asking = request(url);
  asking.end();
  await once(asking, 'response');
}

const outcomes = [];
for (const { url, addresses, isNaive } of rows) {
  met = [];
  let outcome;
  try {
    const signal = AbortSignal.timeout(5_000);
    const options = { accept: '*/*', maxBytes: 100, signal, addresses: addresses ?? [] };
    outcome = isNaive
      ? await naive(new URL(url)).then(() => 'fetched')
      : await fetchBounded(new URL(url), options).then(() => 'fetched');
  } catch (error) {
    outcome = `${error instanceof FetchError ? error.fault : 'error'}: ${String(error)}`;
  }
  outcomes.push({ outcome, met });
}
console.log(JSON.stringify(outcomes));
process.exit();
