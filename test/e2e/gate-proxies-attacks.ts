import { gzipSync } from 'node:zlib';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import type { RECIPE } from './gate-proxies.js';

/** A proxy that runs here, by its recipe. */
export type Name = keyof typeof RECIPE;

/** What must become of an attack. */
export type Outcome =
  /** Refused with one of these statuses; the tool server sees nothing. A code stands in the answer. */
  | { readonly status: number | readonly number[]; readonly code?: string }
  /** The tool server sees this request, with the context of the gate if it is a call, and nothing that is the proxy's to take off. */
  | { readonly method: string; readonly body: string | Buffer; readonly tool?: string };

export interface Attack {
  readonly name: string;
  /** What is written to the connection. */
  readonly bytes: () => string | Buffer;
  /** By proxy; `all` stands for those that are not named. */
  readonly outcome: Partial<Record<Name | 'all', Outcome>>;
  /** The proxies that are tried; left out, all. */
  readonly by?: readonly Name[];
  /** The statuses of what is answered after it on the same connection. */
  readonly then?: readonly number[];
  /** The caller goes away without an answer: what the tool server has seen then is all. */
  readonly leaves?: true;
}

/** A request to the letter. Without a length if the headers have a framing of their own. */
function write({
  method = 'POST',
  target = '/mcp',
  version = '1.1',
  headers = [],
  body = '',
  closes = true,
}: {
  readonly method?: string;
  readonly target?: string;
  readonly version?: string;
  readonly headers?: readonly string[];
  readonly body?: string | Buffer;
  readonly closes?: boolean;
}): Buffer {
  const names = headers.map((line) => line.replace(/:.*/s, '').toLowerCase().trim());
  const framing: string[] = names.some((name) => /^(content-length|transfer-encoding)$/.test(name))
    ? []
    : [`Content-Length: ${Buffer.byteLength(body)}`];
  const closing: string[] = closes && !names.includes('connection') ? ['Connection: close'] : [];
  const lines = ['Host: tools.example', ...closing, ...framing, ...headers];
  return Buffer.concat([
    Buffer.from(`${method} ${target} HTTP/${version}\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    Buffer.from(body),
  ]);
}

const JSON_TYPE = 'Content-Type: application/json';
const NAMED: readonly string[] = ['Mcp-Method: tools/call', 'Mcp-Name: search'];
const CALL = toolCall();
type Parts = Parameters<typeof write>[0] & { readonly bundle?: string };

/** A signed call of the tool `search`, with another part, and more headers. */
const signed = ({ bundle = mcpBundle(), ...parts }: Parts = {}, ...headers: string[]) => {
  const type = headers.some((line) => line.startsWith('Content-Type:')) ? [] : [JSON_TYPE];
  return write({
    body: CALL,
    ...parts,
    headers: [...type, ...NAMED, `X-DRS-Bundle: ${bundle}`, ...headers],
  });
};
const call = (...headers: string[]) => signed({}, ...headers);
/** A signed call of another tool, to the letter. */
const callOf = (name: string, bundle = mcpBundle()) =>
  write({
    body: toolCall({ name }),
    headers: [JSON_TYPE, 'Mcp-Method: tools/call', `Mcp-Name: ${name}`, `X-DRS-Bundle: ${bundle}`],
  });
const unsigned = (...headers: string[]) => write({ body: CALL, headers: [JSON_TYPE, ...NAMED, ...headers] });
const get = (parts: Parts, ...headers: string[]) =>
  write({ method: 'GET', ...parts, headers: ['Accept: text/event-stream', ...headers] });

const RUNS: Outcome = { method: 'POST', body: CALL, tool: 'search' };
const GETS: Outcome = { method: 'GET', body: '' };
const all = (outcome: Outcome) => ({ all: outcome });
const refused = (status: number | readonly number[], code?: string) =>
  all(code === undefined ? { status } : { status, code });
/** Attacks with one outcome, by name. */
const group = (outcome: Attack['outcome'], attacks: Record<string, Attack['bytes']>, more: object = {}) =>
  Object.entries(attacks).map(([name, bytes]): Attack => ({ name, bytes, outcome, ...more }));
const calls = (outcome: Attack['outcome'], ...targets: string[]) =>
  targets.flatMap((target) => group(outcome, { [`a signed call to ${target}`]: () => signed({ target }) }));

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const CHUNKED = 'Transfer-Encoding: chunked';
const IN_CHUNKS = `${chunk(CALL)}0\r\n\r\n`;
const OTHER = toolCall({ arguments: { query: 'coffee' } });
const BATCH = `[${CALL},${toolCall({ name: 'fetch' })}]`;
const TWICE = CALL.replace('"query":"tea"', '"query":"coffee","query":"tea"');
/** Caddy copies the headers of an answer with names of this form. */
const PLACEHOLDER = 'x{http.reverse_proxy.header.X-Drs-Agent}';
const BOSS = 'did:key:zBoss';
const spoofed = (names: string) => names.split(' ').map((name) => `${name}: ${BOSS}`);
/** Every sign that a name may have (RFC 9110), but letters, digits and hyphens. */
const ODD = "!#$%&'*+.^_`|~".split('').map((sign) => `a${sign}b: 1`);

/** What a guard, which Caddy has behind it, says of headers that other recipes take off. */
const GUARD = {
  method: { caddy: { status: 405, code: 'METHOD_NOT_ALLOWED' } },
  odd: { caddy: { status: 400 } },
  // Caddy takes off what Connection names, before a guard sees it.
  hop: { caddy: RUNS },
};
const HOP = refused(400, 'HOP_BY_HOP_HEADER');
const NO_CHUNKS: Outcome = { status: 411, code: 'HOP_BY_HOP_HEADER' };

let replayed = '';

export const ATTACKS: readonly Attack[] = [
  ...group(all(RUNS), {
    'nothing: a signed call': () => signed(),
    'Expect: 100-continue': () => call('Expect: 100-continue'),
    'HTTP/1.0': () => signed({ version: '1.0' }),
    'Upgrade: h2c, as Java sends it': () =>
      call(
        'Connection: Upgrade, HTTP2-Settings, close',
        'Upgrade: h2c',
        'HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA',
      ),
    'TE: trailers, and a header that is a trailer': () =>
      call(
        ...['Connection: TE, close', 'TE: trailers', 'Keep-Alive: timeout=9'],
        ...['Proxy-Connection: X-DRS-Agent', 'Trailer: X-DRS-Agent'],
      ),
  }),
  ...group(refused(403, 'MISSING_BUNDLE'), { 'a call without a bundle': () => unsigned() }),

  // Behind an allowed call, on its connection
  ...group(
    all(RUNS),
    {
      'the same call once more': () => {
        replayed = mcpBundle();
        return Buffer.concat([signed({ bundle: replayed, closes: false }), signed({ bundle: replayed })]);
      },
    },
    { then: [409] },
  ),
  ...(
    [
      ['bytes', () => '}}\r\n\r\n', [400, 505]],
      ['a request without a bundle', () => unsigned(), [403]],
      ['a request of another path', () => signed({ target: '/admin' }), [404]],
    ] as const
  ).flatMap(([what, bytes, then]) =>
    group(
      all(RUNS),
      { [`${what} behind it`]: () => Buffer.concat([signed({ closes: false }), Buffer.from(bytes())]) },
      { then },
    ),
  ),

  // Paths
  ...calls(
    refused(404),
    ...['/admin', '/mcp/../admin', '/admin/../mcp', '/mcp/%2e%2e/admin', '//mcp', '/mcp//'],
    ...['/mcp/', '/mcp/tools', '/MCP', '/%6dcp', '/mcp?admin=1', '/mcp?', '/mcp;a=b', '/mcpx', '/'],
    'http://tools.example/admin',
  ),
  // nginx: a path above the root.
  ...calls(refused([400, 404]), '/%2e%2e/mcp', '/mcp#x', '/mcp\\..\\admin', '/mcp%00', '*'),
  ...calls(all(RUNS), 'http://tools.example/mcp'),

  // Methods
  ...group(refused(405, 'METHOD_NOT_ALLOWED'), {
    'a GET with a body, which headers call a POST': () =>
      get(
        { body: CALL },
        ...[JSON_TYPE, 'X-HTTP-Method-Override: POST', 'X-HTTP-Method: POST', 'X-Method-Override: POST'],
      ),
    PUT: () => signed({ method: 'PUT' }),
  }),
  ...group(
    { ...refused(403, 'MISSING_BUNDLE'), ...GUARD.method },
    {
      'a call without a bundle, which headers call a GET': () =>
        unsigned('X-Original-Method: GET', 'X-Forwarded-Method: GET'),
    },
  ),
  ...group(refused([400, 405]), { 'a method in lower case': () => signed({ method: 'post' }) }),
  ...group(refused([400, 403, 405]), { TRACE: () => signed({ method: 'TRACE' }) }),
  ...group(refused([400, 404, 405, 502]), {
    CONNECT: () => signed({ method: 'CONNECT', target: 'tools.example:80' }),
  }),
  ...group(refused([400, 404, 405, 502, 505]), {
    'HTTP/2 at once': () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  }),

  // Headers of the gate, and headers that name another path
  ...group(
    { ...all(RUNS), ...GUARD.method },
    {
      'headers that name another path': () =>
        call(
          ...['X-Original-URI: /admin', 'X-Original-URL: /admin'],
          ...['X-Forwarded-Uri: /admin', 'X-Rewrite-URL: /admin'],
        ),
    },
  ),
  ...group(
    { ...all(RUNS), ...GUARD.odd },
    {
      'context headers of the caller, in several spellings': () =>
        call(
          ...spoofed('X-DRS-Agent x-drs-agent X-DRS-AGENT X_DRS_Agent X-DRS_Agent x_drs_agent'),
          ...spoofed('X-DRS-Context X_DRS_CONTEXT X-DRS-Root-Principal X-DRS-Root-Name X-DRS-Binding'),
          ...spoofed(
            'X-DRS-Root-Type X-DRS-Session-Id X_DRS_Correlation_Id X-DRS-Approved-By X-DRS-Observed',
          ),
          ...spoofed('X-DRS-Tool X-DRS-Chain-Depth X-DRS-Command X-DRS-Invocation'),
        ),
      'odd names of headers': () => call(...ODD, 'X_Request_Id: 7'),
    },
  ),
  ...group(
    { ...all(GETS), ...GUARD.odd },
    { 'context headers with a GET': () => get({}, ...spoofed('X-DRS-Agent X_DRS_Agent X-DRS-Context')) },
  ),
  ...group(
    { ...all(RUNS), nginx: { status: 400 } },
    { 'a context header in a folded line': () => call(`X-A: b\r\n X-DRS-Agent: ${BOSS}`) },
  ),
  ...group(all({ method: 'POST', body: toolCall({ name: PLACEHOLDER }), tool: PLACEHOLDER }), {
    'a signed value that looks like a variable of Caddy': () => {
      const args = { tool: PLACEHOLDER, query: 'tea' };
      return callOf(PLACEHOLDER, encode(liveCall(liveChain(2, { policy: {} }), args)));
    },
  }),

  // The connection
  ...group(
    { ...HOP, caddy: { status: 403, code: 'MISSING_BUNDLE' } },
    { 'Connection names the bundle': () => call('Connection: close, X-DRS-Bundle') },
  ),
  ...group(
    { ...HOP, ...GUARD.hop },
    {
      'Connection names the context': () => call('Connection: X-DRS-Context, close'),
      'Connection names the tool, in a list with gaps': () => call('Connection: ,\tClose ,, x-drs-tool'),
    },
  ),
  // The variable of nginx before 1.23 has the first; nginx takes off nothing that the second names.
  ...group(
    { ...HOP, ...GUARD.hop, nginx: RUNS },
    {
      'Connection twice, and the second names the context': () =>
        call('Connection: close', 'Connection: X-DRS-Agent'),
    },
  ),
  ...group(all(GETS), {
    'Upgrade: websocket': () =>
      get(
        {},
        ...['Connection: Upgrade, close', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      ),
  }),

  // Where the body ends
  ...group(
    { ...all(RUNS), haproxy: NO_CHUNKS },
    {
      trailers: () =>
        signed(
          { body: `${chunk(CALL)}0\r\nX-DRS-Agent: ${BOSS}\r\nX-DRS-Context: ${BOSS}\r\n\r\n` },
          ...[CHUNKED, 'Trailer: X-DRS-Agent'],
        ),
    },
  ),
  ...group(
    { ...all(GETS), haproxy: NO_CHUNKS },
    { 'trailers of a GET': () => get({ body: `0\r\nX-DRS-Agent: ${BOSS}\r\n\r\n` }, CHUNKED) },
  ),
  ...['GET', 'DELETE'].flatMap((method) =>
    group(
      { nginx: { method, body: '' }, haproxy: { status: 411 } },
      {
        [`trailers of a ${method}, which it announces`]: () =>
          get({ method, body: `0\r\nX-DRS-Agent: ${BOSS}\r\n\r\n` }, CHUNKED, 'Trailer: X-DRS-Agent'),
      },
      // Caddy says the name of the trailer to the tool server, but sends no trailer.
      { by: ['nginx', 'haproxy'] },
    ),
  ),
  // Caddy goes by the chunks, and so does what it sends on.
  ...group(
    { nginx: { status: 400 }, haproxy: { status: [400, 411] }, caddy: RUNS },
    { 'chunks and a length': () => signed({ body: IN_CHUNKS }, CHUNKED, 'Content-Length: 5') },
  ),
  ...['identity', 'xchunked', 'gzip, chunked', 'chunked, identity']
    .map((coding) => `Transfer-Encoding: ${coding}`)
    .flatMap((line) =>
      group(refused([400, 411, 422, 501]), { [line]: () => signed({ body: IN_CHUNKS }, line) }),
    ),
  ...group(refused([400, 403, 411]), {
    'a space before the colon of Transfer-Encoding': () =>
      signed({ body: IN_CHUNKS }, 'Transfer-Encoding : chunked', 'Content-Length: 0'),
  }),
  ...group(refused(400), {
    'two lengths': () => call(`Content-Length: ${CALL.length}`, 'Content-Length: 0'),
    'a length with a sign': () => call(`Content-Length: +${CALL.length}`),
  }),
  ...group(refused(400, 'INVALID_JSONRPC'), {
    'a length that cuts the body': () => call(`Content-Length: ${CALL.length - 1}`),
  }),
  ...group(
    refused([400, 408, 502]),
    { 'a body that never ends': () => call(`Content-Length: ${CALL.length + 1}`) },
    { leaves: true },
  ),

  // What a tool server could read otherwise
  ...group(refused(403, 'BINDING_MISMATCH'), {
    'other arguments': () => signed({ body: OTHER }),
    'a compressed body': () => signed({ body: gzipSync(OTHER, { level: 1 }) }, 'Content-Encoding: gzip'),
    'a form': () => call('Content-Type: application/x-www-form-urlencoded'),
    'a plain text': () => call('Content-Type: text/plain'),
    'another charset': () => call('Content-Type: application/json; charset=utf-7'),
    'an argument twice': () => signed({ body: TWICE }),
    'a bundle for another tool': () => callOf('fetch'),
  }),
  ...group(refused(400, 'BATCH_NOT_SUPPORTED'), { 'a batch': () => signed({ body: BATCH }) }),
  ...group(refused(400, 'HEADER_MISMATCH'), {
    'another tool than its header says': () => signed({ body: toolCall({ name: 'fetch' }) }),
  }),
  ...group(refused(400, 'MULTIPLE_BUNDLES'), {
    'the bundle twice': () => call(`X-DRS-Bundle: ${mcpBundle()}`),
  }),

  // Sizes
  ...group(refused(431), {
    'one header of 70 kB': () => call(`X-Big: ${'x'.repeat(70_000)}`),
    'headers of 75 kB together': () => call(...['A', 'B', 'C'].map((at) => `X-${at}: ${'x'.repeat(25_000)}`)),
  }),
  ...group(
    refused(431, 'HEADERS_TOO_LARGE'),
    { '91 headers more': () => call(...Array.from({ length: 91 }, (_, at) => `X-${at}: x`)) },
    // The others cannot count headers. To more than 100, uWebSockets.js gives no answer, and they refuse the call.
    { by: ['nginx', 'haproxy'] },
  ),
];

/** The outcome through a proxy. */
export function outcomeFor({ name, outcome }: Attack, proxy: Name): Outcome {
  const found = outcome[proxy] ?? outcome.all;
  if (found === undefined) throw new Error(`"${name}" has no outcome through ${proxy}`);
  return found;
}
