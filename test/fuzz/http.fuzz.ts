import { once } from 'node:events';
import net from 'node:net';
import fc from 'fast-check';
import { FRONT_END } from '../support/front-end.js';
import { ServiceProcess } from '../support/service-process.js';
import { liveCall, liveChain } from '../middleware/call.js';
import { verifyRemembered } from '../oracle/differential/signatures.js';
import { readJson } from '../oracle/json.js';
import { verify } from '../oracle/oracle.js';
import { readAnswers, readFraming, type Answers, type Framed, type FramedRequest } from './framing.js';
import type { Target } from './target.js';

/**
 * The bytes of a connection to the real service, on both front ends. In a text, `✂` is where a packet ends, `✖` where the
 * client resets the connection, `⟦sound⟧` a bundle that verifies, `⟦broken⟧` one that does not, `⟦length⟧` their length,
 * `⟦hex⟧` the same for a chunk, and `⟦a*50⟧` fifty times the letter a. Every other character is a byte.
 */

const call = liveCall(liveChain(1), { tool: 'search' });
const sound = JSON.stringify(call);
const [head, payload, signature = ''] = call.invocation.split('.');
const other = (signature.startsWith('A') ? 'B' : 'A') + signature.slice(1);
const WORDS: Readonly<Record<string, string>> = {
  sound,
  broken: JSON.stringify({ ...call, invocation: `${head}.${payload}.${other}` }),
  length: String(sound.length),
  hex: sound.length.toString(16),
};
const MAX_BODY_BYTES = 12_288;
const MAX_BYTES = 400_000;

function expand(text: string): string {
  let room = MAX_BYTES;
  return text
    .replace(/⟦([a-z]+)⟧/g, (all, word: string) => WORDS[word] ?? all)
    .replace(/⟦([^⟦⟧]{1,200})\*(\d{1,6})⟧/g, (_, piece: string, times: string) => {
      const long = piece.repeat(Math.min(Number(times), Math.floor(room / piece.length)));
      room -= long.length;
      return long;
    })
    .slice(0, MAX_BYTES);
}

const post = (headers: string, body: string, path = '/verify') =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n${body}`;
const LENGTH = 'Content-Length: ⟦length⟧\r\n';
const CHUNKED = 'Transfer-Encoding: chunked\r\n';
const HEALTH = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
const CHUNKS = '⟦hex⟧\r\n⟦sound⟧\r\n0\r\n\r\n';
const SEEDS = [
  HEALTH,
  post(LENGTH, '⟦sound⟧'),
  post(LENGTH, '⟦broken⟧'),
  post(CHUNKED, CHUNKS),
  post(CHUNKED, `1\r\n{\r\n✂${CHUNKS}`),
  post(CHUNKED, `1\r\n \r\n✂${CHUNKS}`),
  post(CHUNKED, '⟦hex⟧\r\n⟦sound⟧\r\n0\r\nTrailer: x\r\n\r\n'),
  post(CHUNKED, '⟦1\r\na\r\n*5000⟧0\r\n\r\n'),
  post(CHUNKED, 'ffffffff\r\n⟦a*9000⟧'),
  post(`${LENGTH}${CHUNKED}`, CHUNKS),
  post(`${LENGTH}${LENGTH}`, '⟦sound⟧'),
  post('Content-Length: +⟦length⟧\r\n', '⟦sound⟧'),
  post('Content-Length: 0x⟦hex⟧\r\n', '⟦sound⟧'),
  post('Transfer-Encoding: gzip, chunked\r\n', CHUNKS),
  // Requests in one packet, and a request in the body of another.
  `⟦${HEALTH}*30⟧`,
  post(LENGTH, '⟦sound⟧').repeat(3),
  post(LENGTH, '⟦sound⟧') + post(LENGTH, '⟦broken⟧'),
  `${post(LENGTH, '⟦broken⟧')}✂${post(LENGTH, '⟦sound⟧')}✂${HEALTH}`,
  `${post(LENGTH, '⟦broken⟧').replace('POST', 'POS;x=1T')}✂${post(LENGTH, '⟦sound⟧')}`,
  post('Content-Length: 5\r\n', `12345${HEALTH}`),
  post('Content-Length: 3\r\n', '"\xff"'),
  // Too short, too long, gone.
  post(LENGTH, '{"bundle✖'),
  post('Content-Length: 900\r\n', '{"a":'),
  post('Content-Length: 20000\r\n', '⟦x*20000⟧'),
  post('Content-Length: 20000\r\n', '⟦1*20000⟧'),
  post(CHUNKED, '4e20\r\n⟦1*20000⟧\r\n0\r\n\r\n'),
  post('Content-Length: 12288\r\n', '⟦[*12288⟧'),
  post('Content-Length: 20000\r\nExpect: 100-continue\r\n', '✂⟦x*20000⟧'),
  post(LENGTH, '⟦sound⟧✖'),
  // Headers: many, long, odd.
  post(`⟦A: b\r\n*60⟧${LENGTH}`, '⟦sound⟧'),
  post(`⟦A: b\r\n*40000⟧${LENGTH}`, '⟦sound⟧'),
  post(`X-DRS-Bundle: ⟦a*60000⟧\r\n${LENGTH}`, '⟦sound⟧'),
  post(`X: ⟦a*99999⟧\r\n${LENGTH}`, '⟦sound⟧'),
  post(` folded\r\n${LENGTH}`, '⟦sound⟧'),
  `P✂OST /ver✂ify HTTP/1.1\r\nHos✂t: x\r✂\nContent-Length: 2\r\n\r✂\n{✂}`,
  `HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n${HEALTH}`,
  'GET /metrics HTTP/1.0\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n',
  `GET /⟦a*30000⟧ HTTP/1.1\r\nHost: x\r\n\r\n`,
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  post(LENGTH, '⟦sound⟧', '  /verify'),
  post(LENGTH, '⟦sound⟧', '/v1/gate'),
  post(LENGTH, '⟦sound⟧', '/unknown'),
  post('X-DRS-Bundle: e30\r\nContent-Length: 2\r\n', '{}', '/gate/mcp'),
  post('Authorization: Bearer x\r\nContent-Length: 2\r\n', '{}', '/admin/revoke'),
];

/** uWebSockets.js where it runs. */
const FRONT_ENDS = FRONT_END === 'uws' ? ['uws', 'node'] : ['node'];
let services: Promise<Record<string, ServiceProcess>> | undefined;
const start = (frontEnd: string) =>
  ServiceProcess.start({
    // Longer than the patience below: what a client that goes away leaves behind must not wait for a time-out to go.
    env: { FRONT_END: frontEnd, MAX_BODY_BYTES: String(MAX_BODY_BYTES), REQUEST_TIMEOUT_SECS: '60' },
  });
const running = () =>
  (services ??= Promise.all(FRONT_ENDS.map(async (name) => [name, await start(name)] as const)).then((all) =>
    Object.fromEntries(all),
  ));

/** No busy machine needs so long. */
const PATIENCE_MS = 20_000;

/** Sends packets, waits for answers or the end, says goodbye; resolves with what came until the connection was closed. */
async function converse(port: number, text: string, wanted: Framed): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  let received = '';
  const connection = { isClosed: false };
  socket.setNoDelay(true);
  socket.on('data', (chunk) => (received += chunk.toString('latin1')));
  socket.on('error', () => undefined);
  // Not `once`, which rejects where the service resets the connection.
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => {
      connection.isClosed = true;
      resolve();
    });
  });
  await once(socket, 'connect');
  for (const packet of text.split('✂')) {
    const cut = packet.indexOf('✖');
    const bytes = Buffer.from(cut < 0 ? packet : packet.slice(0, cut), 'latin1');
    // What is asked to be sent after the service has closed is lost.
    if (!connection.isClosed && bytes.length > 0) socket.write(bytes);
    if (cut >= 0) {
      socket.resetAndDestroy();
      await closed;
      return received;
    }
    await pause(1);
  }
  const methods = wanted.requests.map(({ method }) => method);
  const end = Date.now() + PATIENCE_MS;
  // A request that is whole, or that cannot be cut in one way, gets an answer, or the service closes.
  const due = wanted.requests.length + (wanted.rest === 'ambiguous' ? 1 : 0);
  while (!connection.isClosed && readAnswers(received, methods).answers.length < due) {
    if (Date.now() > end) throw new Error(`${due} requests, and no answer or end within ${PATIENCE_MS} ms`);
    await pause(1);
  }
  // What cannot be read as requests may get an answer; its absence proves nothing.
  if (wanted.rest !== 'nothing') await Promise.race([closed, pause(5)]);
  socket.end();
  const late = setTimeout(() => socket.destroy(new Error('late')), PATIENCE_MS);
  await closed;
  clearTimeout(late);
  if (socket.errored?.message === 'late')
    throw new Error(`the service keeps a connection that the client has ended for ${PATIENCE_MS} ms`);
  return received;
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** What the oracle makes of the body of `POST /verify`: whether the verdict on it is valid. */
function isValid(body: string): boolean {
  const read = readBundle(body);
  if (read?.kind !== 'object') return false;
  return verify({
    bundle: read,
    body: read.members.findLast(([name]) => name === 'body')?.[1],
    details: false,
    now: Math.floor(Date.now() / 1000),
    settings: {},
    revocation: { remote: 'none', local: new Set<number>() },
    verifySignature: verifyRemembered,
  }).valid;
}

function readBundle(body: string) {
  try {
    return readJson(Buffer.from(body, 'latin1').toString());
  } catch (error) {
    // The oracle recurses. What is nested so deep is no bundle.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const asksForVerdict = ({ method, target }: FramedRequest) =>
  method === 'POST' && /^\/verify(?:\?|$)/.test(target);

// Any other header may be a reason to refuse a request.
const HARMLESS = new Set(['host', 'content-type', 'content-length', 'transfer-encoding', 'a']);

/** The status that a request must get by docs/spec/http.md; `null` if that depends on more than is looked at here. */
function statusOf(request: FramedRequest): number | null {
  const { version, headers, method, target, body } = request;
  if (version !== '1.1' || !headers.includes('host') || request.isUnusual) return null;
  if (!headers.every((name) => HARMLESS.has(name)) || headers.length > 90) return null;
  if ((method === 'GET' || method === 'HEAD') && target === '/healthz') return 200;
  if (method !== 'POST') return null;
  if (target === '/unknown') return 404;
  if (target !== '/verify') return null;
  if (body.length > MAX_BODY_BYTES) return 413;
  return isJson(body) ? 200 : 400;
}

function isJson(body: string): boolean {
  try {
    JSON.parse(
      new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(body, 'latin1')),
    );
    return true;
  } catch {
    return false;
  }
}

/** Each request gets at most one answer, in its turn, and that answer is its own. `end` is what follows the last whole one. */
function checkAnswers(
  { requests, rest }: Framed,
  { answers, end }: Answers,
  { isReset, isInPieces }: { readonly isReset: boolean; readonly isInPieces: boolean },
): void {
  if (!isReset && end !== '' && rest === 'nothing') throw new Error(`half an answer: ${end.slice(0, 200)}`);
  if (rest === 'nothing' && answers.length > requests.length)
    throw new Error(`${answers.length} answers to ${requests.length} requests: ${JSON.stringify(answers)}`);
  for (const [at, { status, body }] of [...answers, { status: null, body: end }].entries()) {
    const request = requests[at];
    const deserves = request !== undefined && asksForVerdict(request) && isValid(request.body);
    const says = body.includes('"valid":true');
    if (says && !deserves) throw new Error(`answer ${at} says valid, and the oracle does not: ${body}`);
    if (status === null) return;
    if (at === requests.length && rest === 'ambiguous' && status < 400)
      throw new Error(`a request that gives its length twice is answered ${status}, expected 400`);
    // uWebSockets.js itself refuses what is no HTTP at once, before the answers to the requests in front of it.
    if (rest !== 'nothing' && status >= 400 && !body.startsWith('{')) return;
    const expected = request === undefined ? null : statusOf(request);
    // 431: more than 64 KiB of headers. uWebSockets.js does not read a version that comes in two packets.
    if (expected === null || status === 431 || (isInPieces && status === 505)) continue;
    if (status !== expected || (deserves && !says))
      throw new Error(
        `answer ${at} is ${status} ${body.slice(0, 200)}, expected ${expected}${deserves ? ' and valid' : ''} ` +
          `for ${JSON.stringify(request).slice(0, 300)}`,
      );
  }
}

// The request for the metrics is open itself. A few connections may be those over which `fetch` asked before.
const MAX_HELD: Readonly<Record<string, number>> = {
  drs_verify_pending: 0,
  drs_http_body_bytes: 0,
  drs_signatures_pending: 0,
  drs_http_open_requests: 1,
  'drs_http_connections{listener="http"}': 4,
};

/** It answers, and nothing that was taken for a request is still held. */
async function checkIsWell({ url }: ServiceProcess): Promise<void> {
  const get = async (path: string) => {
    const answer = await fetch(url + path, { signal: AbortSignal.timeout(PATIENCE_MS) });
    return `${answer.status} ${await answer.text()}`;
  };
  const health = await get('/healthz');
  if (!health.startsWith('200')) throw new Error(`/healthz afterwards: ${health}`);
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const metrics = await get('/metrics');
    const held = Object.entries(MAX_HELD).filter(([name, max]) => {
      const line = metrics.split('\n').find((one) => one.startsWith(`${name} `));
      if (line === undefined) throw new Error(`/metrics has no ${name}`);
      return Number(line.slice(name.length + 1)) > max;
    });
    if (held.length === 0) return;
    if (Date.now() > end)
      throw new Error(
        `${held.map(([name, max]) => `${name} above ${max}`).join(', ')} in /metrics ${PATIENCE_MS} ms afterwards`,
      );
    await pause(10);
  }
}

/** What `node:http` answers in order over one connection at most. */
const MAX_PIPELINED = 16;

/**
 * How many requests must get an answer. uWebSockets.js gives none to more than 97 headers, nor where a client goes on
 * before it has the answer.
 */
function countDue(frontEnd: string, text: string, { requests, rest }: Framed): number {
  if (text.includes('✖') || text.split('\n').length >= 90) return 0;
  if (requests.length === 0) return rest === 'ambiguous' ? 1 : 0;
  if (rest !== 'nothing') return 0;
  if (requests.length === 1) return /^[A-Za-z]+$/.test(requests[0]?.method ?? '') ? 1 : 0;
  // An answer that says more than this may close the connection.
  const isKept = (request: FramedRequest) => [200, 400, 404].includes(statusOf(request) ?? 0);
  const isInOrder = frontEnd === 'node' && requests.length <= MAX_PIPELINED && requests.every(isKept);
  return isInOrder ? requests.length : 0;
}

const http: Target = {
  name: 'http',
  texts: fc.constantFrom(...SEEDS),
  seeds: SEEDS,
  dictionary: [
    ...['\r\n', '\r\n\r\n', '\n', ' ', ': ', '\t', '\0', '✂', '✂', '✖', '0\r\n\r\n', LENGTH, CHUNKED, HEALTH],
    ...['⟦sound⟧', '⟦broken⟧', '⟦length⟧', '⟦hex⟧', '⟦a*70000⟧', '⟦A: b\r\n*40⟧', 'Connection: close\r\n'],
    ...[
      'POST',
      'HEAD',
      '/verify',
      '/v1/gate',
      '/gate/http/x',
      'HTTP/1.0',
      'Expect: 100-continue\r\n',
      ';x=1',
    ],
    ...[
      'Content-Length: 2\r\n',
      'Content-Encoding: gzip\r\n',
      'Upgrade: h2c\r\nConnection: Upgrade\r\n',
      '-',
    ],
  ],
  async run(given) {
    const text = expand(given);
    const bytes = text.replaceAll('✂', '').replace(/✖.*/s, '');
    const wanted = readFraming(Buffer.from(bytes, 'latin1').toString('latin1'));
    const outcomes: string[] = [];
    for (const [frontEnd, service] of Object.entries(await running())) {
      const received = await converse(service.port, text, wanted);
      const found = readAnswers(
        received,
        wanted.requests.map(({ method }) => method),
      );
      try {
        checkAnswers(wanted, found, { isReset: text.includes('✖'), isInPieces: text.includes('✂') });
      } catch (error) {
        throw new Error(`${frontEnd}: ${(error as Error).message}`, { cause: error });
      }
      const { answers } = found;
      const due = countDue(frontEnd, text, wanted);
      if (answers.length < due)
        throw new Error(`${frontEnd}: ${answers.length} answers where ${due} requests must get one`);
      await checkIsWell(service);
      for (const { status, body } of answers)
        outcomes.push(`${frontEnd} ${status} ${body.replace(/[^a-z ]/gi, '').slice(0, 40)}`);
      outcomes.push(
        `${frontEnd} ${answers.length === wanted.requests.length ? 'all' : 'not all'} ${wanted.rest}`,
      );
    }
    return outcomes;
  },
};

export const targets: readonly Target[] = [http];

export async function close(): Promise<void> {
  for (const service of Object.values((await services) ?? {})) await service.stop();
}
