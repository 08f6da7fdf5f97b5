import fc from 'fast-check';
import { GATE_CATALOGUE, type Protocol } from '../../src/gate/codes.js';
import { openRequest } from '../../src/gate/open.js';
import { readHeaders, type Opening } from '../../src/gate/request.js';
import { responseTo } from '../../src/gate/response.js';
import { parseStrictJson, type JsonObject } from '../../src/protocol/json.js';
import { same, scribble, type Target } from './target.js';
import { requestsOf } from './vectors.js';

/** Whole requests: `{ protocol, method, headers, body }` as JSON, the body a text. */

const bundle = Buffer.from('{"bundle_version":"4.0","receipts":["a.b.c"],"invocation":"a.b.c"}').toString(
  'base64url',
);
const call = (method: string, params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
const BODIES = [
  ...[
    '',
    '{}',
    '[]',
    'null',
    '{"jsonrpc":"2.0","id":1,"result":{}}',
    `[${call('tools/call', { name: 'a' })}]`,
  ],
  call('tools/call', { name: 'search', arguments: { query: 'tea' } }),
  call('tools/call', { name: 'search', arguments: {}, _meta: { 'X-DRS-Bundle': bundle } }),
  call('resources/read', { uri: 'file:///a', _meta: { 'X-DRS-Bundle': bundle } }),
  call('prompts/get', { name: 'letter', arguments: { to: 'Ada' }, requestState: 's' }),
  call('completion/complete', { ref: {}, argument: {}, _meta: { 'X-DRS-Bundle': bundle } }),
  call('subscriptions/listen', { notifications: { resourceSubscriptions: ['file:///a'] } }),
  call('tasks/update', { taskId: 't', inputResponses: {}, _meta: { 'X-DRS-Bundle': bundle } }),
  call('tools/list', {}),
  call('initialize', {}),
  call('SendMessage', { message: { parts: [{ text: 'x' }] } }),
];
const headers = fc.dictionary(
  fc.constantFrom(
    'X-DRS-Bundle',
    'x-drs-bundle',
    'Mcp-Name',
    'Mcp-Method',
    'MCP-Protocol-Version',
    'Content-Type',
    '__proto__',
  ),
  fc.oneof(
    fc.constantFrom(bundle, 'search', 'tools/call', 'resources/read', 'file:///a', 'e30', '2026-07-28', ''),
    fc.constant([bundle, bundle]),
    fc.string(),
  ),
  { maxKeys: 3 },
);

interface Asked {
  readonly protocol: Protocol;
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, unknown>;
  readonly body: string;
}

function read(text: string): Asked | null {
  const { value } = parseStrictJson(text, 1e9);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const {
    protocol,
    method,
    path = '/',
    headers: given,
    body,
  } = value as JsonObject & { [name: string]: unknown };
  if (protocol !== 'http' && protocol !== 'mcp' && protocol !== 'a2a') return null;
  if (typeof method !== 'string' || typeof path !== 'string' || typeof body !== 'string') return null;
  return typeof given === 'object' && given !== null
    ? ({ protocol, method, path, headers: given, body } as Asked)
    : null;
}

const open = ({ protocol, method, path, headers: given, body }: Asked): Opening =>
  openRequest(protocol, {
    method,
    target: path,
    headers: readHeaders(given),
    body: { kind: 'text', text: body },
  });

const GATED =
  /^(tools\/call|resources\/(read|subscribe)|prompts\/get|completion\/complete|tasks\/(get|result|cancel|update))$/;
const PATHS = [
  '/',
  '/a2a',
  '/rest/message:send',
  '/v1/tasks/7?historyLength=1',
  '/tasks/7:cancel',
  '/tasks/7/pushNotificationConfigs/8',
  '/.well-known/agent-card.json',
];
// Like fc.webPath(), which first takes 0.7 s to list every character that can be encoded.
const webPath = fc
  .array(
    fc.constantFrom(
      ...'/////abcXYZ019-._~!$&()*+,;=:@'.split(''),
      '%2F',
      '%2e',
      '%25',
      '%00',
      '%C3%A9',
      '%F0%9F%98%80',
    ),
  )
  .map((units) => `/${units.join('')}`);
const CODES: ReadonlySet<string> = new Set(GATE_CATALOGUE.map(({ code }) => code));
const MAX_ANSWER = 4_096;

const gate: Target = {
  name: 'gate',
  texts: fc
    .record({
      protocol: fc.constantFrom('http', 'mcp', 'a2a'),
      method: fc.constantFrom('POST', 'POST', 'POST', 'GET', 'PUT', 'post'),
      path: fc.oneof(fc.constantFrom(...PATHS), webPath, fc.string()),
      headers,
      body: fc.oneof(fc.constantFrom(...BODIES), fc.json()),
    })
    .map((asked) => JSON.stringify(asked)),
  seeds: requestsOf('gate').map((asked) => JSON.stringify(asked).replace('"body_text":', '"body":')),
  dictionary: [
    ...[
      ...['"mcp"', '"a2a"', '"http"', '"POST"', '\\"', '\\"method\\":', '\\"Method\\":'],
      ...['\\"tools/call\\"', '\\"resources/read\\"', '\\"prompts/get\\"'],
      ...['\\"subscriptions/listen\\"', '\\"tasks/get\\"', '\\"params\\":'],
    ],
    ...[
      '\\"name\\":',
      '\\"arguments\\":',
      '\\"_meta\\":',
      '\\"tool\\":',
      '\\"uri\\":',
      '\\"taskId\\":',
      '\\"notifications\\":{\\"resourceSubscriptions\\":[\\"x\\"]}',
      '\\"inputResponses\\":{}',
      '\\"id\\":',
      '\\"jsonrpc\\":\\"2.0\\"',
      bundle,
      ',',
    ],
  ],
  run(text) {
    const asked = read(text);
    if (asked === null) return;
    const first = JSON.stringify(open(asked));
    scribble(open(asked));
    const opened = open(asked);
    same('the same request opens the same way', JSON.stringify(opened), first);
    if (opened.kind === 'pass') {
      if (asked.protocol === 'http') throw new Error('a plain request passed unchecked');
      if (
        asked.protocol === 'a2a' &&
        asked.method !== 'OPTIONS' &&
        !/\/agent(-card)?\.json$/.test(asked.path)
      )
        throw new Error(`an A2A request passed unchecked: ${asked.method} ${asked.path}`);
      // Every message that any parser would take for a gated one must be checked.
      if (asked.method === 'POST' && GATED.test(String(methodOf(asked.body))))
        throw new Error(`a gated message passed unchecked: ${asked.body}`);
      return;
    }
    if (opened.kind === 'deny') {
      if (!CODES.has(opened.failure.code)) throw new Error(`${opened.failure.code} is not in the catalogue`);
      const { status, body } = responseTo(opened);
      if (status < 400 || status > 599) throw new Error(`a denial has the status ${status}`);
      const { length } = JSON.stringify(body);
      if (length > MAX_ANSWER) throw new Error(`an answer of ${length} characters to a denied request`);
      return;
    }
    // The binding must use the body of the call itself.
    if (opened.body.kind === 'value' && asked.protocol === 'mcp')
      same('the tool that is bound', (opened.body.value as { tool: unknown }).tool, toolOf(asked.body));
  },
  time(text) {
    const asked = read(text);
    if (asked !== null) open(asked);
  },
};

const parsed = (text: string): { method?: unknown; params?: { name?: unknown } | null } | null => {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
};
const methodOf = (text: string) => parsed(text)?.method;
const toolOf = (text: string) =>
  methodOf(text) === 'tools/call' ? parsed(text)?.params?.name : methodOf(text);

export const targets: readonly Target[] = [gate];
