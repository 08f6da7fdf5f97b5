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

type Header = readonly [name: string, value: string];

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
  readonly headers?: readonly Header[];
  readonly body?: string | Buffer;
  readonly closes?: boolean;
}): Buffer {
  const names = headers.map(([name]) => name.toLowerCase().trim());
  const framing: Header[] = names.some((name) => /^(content-length|transfer-encoding)$/.test(name))
    ? []
    : [['Content-Length', String(Buffer.byteLength(body))]];
  const closing: Header[] = closes && !names.includes('connection') ? [['Connection', 'close']] : [];
  const lines = [['Host', 'tools.example'], ...closing, ...framing, ...headers].map((line) =>
    line.join(': '),
  );
  return Buffer.concat([
    Buffer.from(`${method} ${target} HTTP/${version}\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    Buffer.from(body),
  ]);
}

const JSON_TYPE: Header = ['Content-Type', 'application/json'];
const NAMED: readonly Header[] = [
  ['Mcp-Method', 'tools/call'],
  ['Mcp-Name', 'search'],
];
const CALL = toolCall();
type Parts = Parameters<typeof write>[0] & { readonly bundle?: string };

/** A signed call of the tool `search`, with another part, and more headers. */
const signed = ({ bundle = mcpBundle(), headers = [], ...parts }: Parts = {}) =>
  write({
    body: CALL,
    ...parts,
    headers: [
      ...(headers.some(([name]) => name === 'Content-Type') ? [] : [JSON_TYPE]),
      ...NAMED,
      ['X-DRS-Bundle', bundle],
      ...headers,
    ],
  });
const unsigned = (parts: Parts = {}) =>
  write({ body: CALL, ...parts, headers: [JSON_TYPE, ...NAMED, ...(parts.headers ?? [])] });
const get = (...headers: Header[]) =>
  write({ method: 'GET', headers: [['Accept', 'text/event-stream'], ...headers] });

const RUNS: Outcome = { method: 'POST', body: CALL, tool: 'search' };
const GETS: Outcome = { method: 'GET', body: '' };
const all = (outcome: Outcome) => ({ all: outcome });
const refused = (status: number | readonly number[], code?: string) =>
  all(code === undefined ? { status } : { status, code });
const NOT_FOUND = refused(404);
const HOP = refused(400, 'HOP_BY_HOP_HEADER');
/** What a guard says of headers that the recipes take off: of another method or path, and of odd names. */
const OVERRIDDEN: Outcome = { status: 405, code: 'METHOD_NOT_ALLOWED' };
const ODD: Outcome = { status: 400 };

const path = (target: string, outcome: Attack['outcome'] = NOT_FOUND): Attack => ({
  name: `a signed call to ${target}`,
  bytes: () => signed({ target }),
  outcome,
});
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const CHUNKED: Header = ['Transfer-Encoding', 'chunked'];
const OTHER = toolCall({ arguments: { query: 'coffee' } });
const BATCH = `[${CALL},${toolCall({ name: 'fetch' })}]`;
const TWICE = CALL.replace('"query":"tea"', '"query":"coffee","query":"tea"');
/** Caddy copies the headers of an answer with names of this form. */
const PLACEHOLDER = 'x{http.reverse_proxy.header.X-Drs-Agent}';
const BOSS = 'did:key:zBoss';

let replayed = '';

export const ATTACKS: readonly Attack[] = [
  { name: 'nothing: a signed call', bytes: () => signed(), outcome: all(RUNS) },
  { name: 'a call without a bundle', bytes: () => unsigned(), outcome: refused(403, 'MISSING_BUNDLE') },
  {
    name: 'other arguments',
    bytes: () => signed({ body: OTHER }),
    outcome: refused(403, 'BINDING_MISMATCH'),
  },
  {
    name: 'the same call once more',
    bytes: () => {
      replayed = mcpBundle();
      return Buffer.concat([signed({ bundle: replayed, closes: false }), signed({ bundle: replayed })]);
    },
    outcome: all(RUNS),
    then: [409],
  },

  // Paths
  ...['/admin', '/mcp/../admin', '/admin/../mcp', '/mcp/%2e%2e/admin', '//mcp', '/mcp//'].map((target) =>
    path(target),
  ),
  ...['/mcp/', '/mcp/tools', '/MCP', '/%6dcp', '/mcp?admin=1', '/mcp?', '/mcp;a=b', '/mcpx', '/'].map(
    (target) => path(target),
  ),
  // nginx: a path above the root.
  path('/%2e%2e/mcp', refused([400, 404])),
  path('/mcp#x', refused([400, 404])),
  path('/mcp\\..\\admin', refused([400, 404])),
  path('/mcp%00', refused([400, 404])),
  path('*', refused([400, 404])),
  path('http://tools.example/admin'),
  path('http://tools.example/mcp', all(RUNS)),

  // Methods
  {
    name: 'a GET with a body, which headers call a POST',
    bytes: () =>
      write({
        method: 'GET',
        body: CALL,
        headers: [
          JSON_TYPE,
          ['X-HTTP-Method-Override', 'POST'],
          ['X-HTTP-Method', 'POST'],
          ['X-Method-Override', 'POST'],
          ['Accept', 'text/event-stream'],
        ],
      }),
    outcome: {
      nginx: { status: 405, code: 'METHOD_NOT_ALLOWED' },
      haproxy: { status: 405, code: 'METHOD_NOT_ALLOWED' },
      caddy: { status: 405, code: 'METHOD_NOT_ALLOWED' },
    },
  },
  {
    name: 'a call without a bundle, which headers call a GET',
    bytes: () =>
      unsigned({
        headers: [
          ['X-Original-Method', 'GET'],
          ['X-Forwarded-Method', 'GET'],
        ],
      }),
    outcome: { ...refused(403, 'MISSING_BUNDLE'), caddy: OVERRIDDEN },
  },
  {
    name: 'PUT',
    bytes: () => signed({ method: 'PUT' }),
    outcome: {
      all: { status: 405, code: 'METHOD_NOT_ALLOWED' },
    },
  },
  { name: 'a method in lower case', bytes: () => signed({ method: 'post' }), outcome: refused([400, 405]) },
  { name: 'TRACE', bytes: () => signed({ method: 'TRACE' }), outcome: refused([400, 403, 405]) },
  {
    name: 'CONNECT',
    bytes: () => signed({ method: 'CONNECT', target: 'tools.example:80' }),
    outcome: refused([400, 404, 405, 502]),
  },

  // Headers of the gate, and headers that name another path
  {
    name: 'headers that name another path',
    bytes: () =>
      signed({
        headers: ['X-Original-URI', 'X-Original-URL', 'X-Forwarded-Uri', 'X-Rewrite-URL'].map(
          (name) => [name, '/admin'] as const,
        ),
      }),
    outcome: { ...all(RUNS), caddy: OVERRIDDEN },
  },
  {
    name: 'context headers of the caller, in several spellings',
    bytes: () =>
      signed({
        headers: [
          'X-DRS-Agent',
          'x-drs-agent',
          'X-DRS-AGENT',
          'X_DRS_Agent',
          'X-DRS_Agent',
          'x_drs_agent',
          'X-DRS-Context',
          'X_DRS_CONTEXT',
          'X-DRS-Root-Principal',
          'X-DRS-Root-Name',
          'X-DRS-Binding',
          'X-DRS-Tool',
        ].map((name) => [name, BOSS] as const),
      }),
    outcome: { ...all(RUNS), caddy: ODD },
  },
  {
    name: 'context headers with a GET',
    bytes: () => get(['X-DRS-Agent', BOSS], ['X_DRS_Agent', BOSS], ['X-DRS-Context', BOSS]),
    outcome: { ...all(GETS), caddy: ODD },
  },
  {
    name: 'a context header in a folded line',
    bytes: () => signed({ headers: [['X-A', `b\r\n X-DRS-Agent: ${BOSS}`]] }),
    outcome: { nginx: { status: 400 }, haproxy: RUNS, caddy: RUNS },
  },
  {
    name: 'a signed value that looks like a variable of Caddy',
    bytes: () => {
      const args = { tool: PLACEHOLDER, query: 'tea' };
      const bundle = encode(liveCall(liveChain(2, { policy: {} }), args));
      return write({
        body: toolCall({ name: PLACEHOLDER }),
        headers: [
          JSON_TYPE,
          ['Mcp-Method', 'tools/call'],
          ['Mcp-Name', PLACEHOLDER],
          ['X-DRS-Bundle', bundle],
        ],
      });
    },
    outcome: all({ method: 'POST', body: toolCall({ name: PLACEHOLDER }), tool: PLACEHOLDER }),
  },

  // The connection
  {
    name: 'Connection names the bundle',
    bytes: () => signed({ headers: [['Connection', 'close, X-DRS-Bundle']] }),
    // Caddy takes off what it names, before a guard sees it.
    outcome: { ...HOP, caddy: { status: 403, code: 'MISSING_BUNDLE' } },
  },
  {
    name: 'Connection names the context',
    bytes: () => signed({ headers: [['Connection', 'X-DRS-Context, close']] }),
    outcome: { ...HOP, caddy: RUNS },
  },
  {
    name: 'Connection names the tool, in a list with gaps',
    bytes: () => signed({ headers: [['Connection', ',\tClose ,, x-drs-tool']] }),
    outcome: { ...HOP, caddy: RUNS },
  },
  {
    name: 'Connection twice, and the second names the context',
    bytes: () =>
      signed({
        headers: [
          ['Connection', 'close'],
          ['Connection', 'X-DRS-Agent'],
        ],
      }),
    // The variable of nginx before 1.23 has the first; nginx takes off nothing that the second names.
    outcome: { nginx: RUNS, haproxy: HOP.all, caddy: RUNS },
  },
  {
    name: 'Upgrade: websocket',
    bytes: () =>
      get(
        ['Connection', 'Upgrade, close'],
        ['Upgrade', 'websocket'],
        ['Sec-WebSocket-Version', '13'],
        ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ),
    outcome: all(GETS),
  },
  {
    name: 'Upgrade: h2c with a signed call, as Java sends it',
    bytes: () =>
      signed({
        headers: [
          ['Connection', 'Upgrade, HTTP2-Settings, close'],
          ['Upgrade', 'h2c'],
          ['HTTP2-Settings', 'AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA'],
        ],
      }),
    outcome: all(RUNS),
  },
  {
    name: 'HTTP/2 at once',
    bytes: () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    outcome: refused([400, 404, 405, 502, 505]),
  },
  {
    name: 'TE: trailers, and a header that is a trailer',
    bytes: () =>
      signed({
        headers: [
          ['Connection', 'TE, close'],
          ['TE', 'trailers'],
          ['Keep-Alive', 'timeout=9'],
          ['Proxy-Connection', 'X-DRS-Agent'],
          ['Trailer', 'X-DRS-Agent'],
        ],
      }),
    outcome: { nginx: RUNS, haproxy: RUNS, caddy: RUNS },
  },

  // Where the body ends
  {
    name: 'trailers',
    bytes: () =>
      signed({
        headers: [CHUNKED, ['Trailer', 'X-DRS-Agent']],
        body: `${chunk(CALL)}0\r\nX-DRS-Agent: ${BOSS}\r\nX-DRS-Context: ${BOSS}\r\n\r\n`,
      }),
    outcome: {
      nginx: RUNS,
      caddy: RUNS,
      haproxy: { status: 411, code: 'HOP_BY_HOP_HEADER' },
    },
  },
  {
    name: 'trailers of a GET',
    bytes: () =>
      write({
        method: 'GET',
        headers: [['Accept', 'text/event-stream'], CHUNKED],
        body: `0\r\nX-DRS-Agent: ${BOSS}\r\n\r\n`,
      }),
    outcome: {
      nginx: GETS,
      caddy: GETS,
      haproxy: { status: 411, code: 'HOP_BY_HOP_HEADER' },
    },
  },
  ...['GET', 'DELETE'].map((method): Attack => ({
    name: `trailers of a ${method}, which it announces`,
    bytes: () =>
      write({
        method,
        headers: [['Accept', 'text/event-stream'], CHUNKED, ['Trailer', 'X-DRS-Agent']],
        body: `0\r\nX-DRS-Agent: ${BOSS}\r\n\r\n`,
      }),
    outcome: {
      nginx: { method, body: '' },
      haproxy: { status: 411 },
    },
    // Caddy says the name of the trailer to the tool server, but sends no trailer.
    by: ['nginx', 'haproxy'],
  })),
  {
    name: 'chunks and a length',
    bytes: () => signed({ headers: [CHUNKED, ['Content-Length', '5']], body: `${chunk(CALL)}0\r\n\r\n` }),
    outcome: {
      nginx: { status: 400 },
      haproxy: { status: [400, 411] },
      // Caddy goes by the chunks, and so does what it sends on.
      caddy: RUNS,
    },
  },
  ...['identity', 'xchunked', 'gzip, chunked', 'chunked, identity'].map((coding): Attack => ({
    name: `Transfer-Encoding: ${coding}`,
    bytes: () => signed({ headers: [['Transfer-Encoding', coding]], body: `${chunk(CALL)}0\r\n\r\n` }),
    outcome: refused([400, 411, 422, 501]),
  })),
  {
    name: 'a space before the colon of Transfer-Encoding',
    bytes: () =>
      signed({
        headers: [
          ['Transfer-Encoding ', 'chunked'],
          ['Content-Length', '0'],
        ],
        body: `${chunk(CALL)}0\r\n\r\n`,
      }),
    outcome: refused([400, 403, 411]),
  },
  {
    name: 'two lengths',
    bytes: () =>
      signed({
        headers: [
          ['Content-Length', String(CALL.length)],
          ['Content-Length', '0'],
        ],
      }),
    outcome: refused(400),
  },
  {
    name: 'a length with a sign',
    bytes: () => signed({ headers: [['Content-Length', `+${CALL.length}`]] }),
    outcome: refused(400),
  },
  {
    name: 'a length that cuts the body',
    bytes: () => signed({ headers: [['Content-Length', String(CALL.length - 1)]] }),
    outcome: refused(400, 'INVALID_JSONRPC'),
  },
  {
    name: 'bytes behind the body',
    bytes: () => Buffer.concat([signed({ closes: false }), Buffer.from('}}\r\n\r\n')]),
    outcome: all(RUNS),
    then: [400, 505],
  },
  {
    name: 'a second request behind an allowed one',
    bytes: () => Buffer.concat([signed({ closes: false }), unsigned()]),
    outcome: all(RUNS),
    then: [403],
  },
  {
    name: 'a request of another path behind an allowed one',
    bytes: () => Buffer.concat([signed({ closes: false }), signed({ target: '/admin' })]),
    outcome: all(RUNS),
    then: [404],
  },
  {
    name: 'a body that never ends',
    bytes: () => signed({ headers: [['Content-Length', String(CALL.length + 1)]] }),
    outcome: refused([400, 408, 502]),
    leaves: true,
  },
  {
    name: 'Expect: 100-continue',
    bytes: () => signed({ headers: [['Expect', '100-continue']] }),
    outcome: all(RUNS),
  },
  { name: 'HTTP/1.0', bytes: () => signed({ version: '1.0' }), outcome: all(RUNS) },

  // What a tool server could read otherwise
  {
    name: 'a compressed body',
    bytes: () => signed({ headers: [['Content-Encoding', 'gzip']], body: gzipSync(OTHER, { level: 1 }) }),
    outcome: refused(403, 'BINDING_MISMATCH'),
  },
  ...['application/x-www-form-urlencoded', 'text/plain', 'application/json; charset=utf-7'].map(
    (type): Attack => ({
      name: type,
      bytes: () => signed({ headers: [['Content-Type', type]] }),
      outcome: refused(403, 'BINDING_MISMATCH'),
    }),
  ),
  {
    name: 'a batch',
    bytes: () => signed({ body: BATCH }),
    outcome: refused(400, 'BATCH_NOT_SUPPORTED'),
  },
  {
    name: 'an argument twice',
    bytes: () => signed({ body: TWICE }),
    outcome: refused(403, 'BINDING_MISMATCH'),
  },
  {
    name: 'another tool than its header says',
    bytes: () => signed({ body: toolCall({ name: 'fetch' }) }),
    outcome: refused(400, 'HEADER_MISMATCH'),
  },
  {
    name: 'a bundle for another tool',
    bytes: () =>
      write({
        body: toolCall({ name: 'fetch' }),
        headers: [
          JSON_TYPE,
          ['Mcp-Method', 'tools/call'],
          ['Mcp-Name', 'fetch'],
          ['X-DRS-Bundle', mcpBundle()],
        ],
      }),
    outcome: refused(403, 'BINDING_MISMATCH'),
  },
  {
    name: 'the bundle twice',
    bytes: () => signed({ headers: [['X-DRS-Bundle', mcpBundle()]] }),
    outcome: {
      nginx: { status: 400, code: 'MULTIPLE_BUNDLES' },
      haproxy: { status: 400, code: 'MULTIPLE_BUNDLES' },
      caddy: { status: 400, code: 'MULTIPLE_BUNDLES' },
    },
  },

  // Sizes
  {
    name: 'one header of 70 kB',
    bytes: () => signed({ headers: [['X-Big', 'x'.repeat(70_000)]] }),
    outcome: refused(431),
  },
  {
    name: '91 headers more',
    bytes: () => signed({ headers: Array.from({ length: 91 }, (_, at) => [`X-${at}`, 'x'] as const) }),
    outcome: refused(431, 'HEADERS_TOO_LARGE'),
    // The others cannot count headers. To more than 100, uWebSockets.js gives no answer, and they refuse the call.
    by: ['nginx', 'haproxy'],
  },
  {
    name: 'headers of 75 kB together',
    bytes: () =>
      signed({ headers: ['A', 'B', 'C'].map((name) => [`X-${name}`, 'x'.repeat(25_000)] as const) }),
    outcome: refused(431),
  },
];

/** The outcome through a proxy. */
export function outcomeFor({ name, outcome }: Attack, proxy: Name): Outcome {
  const found = outcome[proxy] ?? outcome.all;
  if (found === undefined) throw new Error(`"${name}" has no outcome through ${proxy}`);
  return found;
}
