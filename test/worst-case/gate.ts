import { GATE_HEADERS } from '../../src/gate/request.js';
import { GATED_METHODS, mcpArgumentsOf } from '../../src/gate/mcp-methods.js';
import { Raw, signedRequest } from './attacker.js';
import { valueNames, values } from './claims.js';
import { family, fit, list, type Family } from './family.js';
import { field, gateRequest } from './gate-path.js';

// A header has at most 64 KiB.
const HEADER_BYTES = 60_000;
let bundle = '';
/** A bundle with a valid chain, encoded for a header. */
const carried = () => (bundle ||= Buffer.from(signedRequest({})).toString('base64url'));

/** One part of a JSON-RPC message is huge, in a call with a valid chain. */
const message = family(
  'gate: a JSON-RPC message',
  {
    protocol: ['mcp', 'a2a'],
    value: valueNames,
    where: ['arguments', 'message', 'params', 'id', 'method', 'name', '_meta', 'beside', 'document', 'batch'],
    carrier: ['header', 'none'],
    // With a duplicate, the message is read a second time.
    defect: ['none', 'a duplicate'],
  },
  ({ protocol, value, where, carrier, defect }, budget) => {
    const header = carrier === 'header' ? carried() : '';
    return fit(budget - header.length, (size) => {
      const huge = values[value](size);
      const at = (place: string, ordinary: string) => (where === place ? huge : ordinary);
      const params =
        protocol === 'mcp'
          ? `{"name":${at('name', '"search"')},"arguments":${at('arguments', '{"query":"tea"}')},"_meta":${at('_meta', '{}')}}`
          : `{"message":${at('message', '{"parts":[]}')},"metadata":${at('_meta', '{}')}}`;
      const method = protocol === 'mcp' ? '"tools/call"' : '"SendMessage"';
      const text = `{"jsonrpc":"2.0","id":${at('id', '1')},"method":${at('method', method)},"params":${at('params', params)}${where === 'beside' ? `,"x":${huge}` : ''}${defect === 'none' ? '' : ',"y":1,"y":2'}}`;
      const body =
        where === 'document'
          ? huge
          : where === 'batch'
            ? `[${list(Math.max(1, Math.floor(size / text.length)), () => text).join(',')}]`
            : text;
      return gateRequest(protocol, header, body);
    });
  },
  'gate',
);

/** A message that passes, and is sent on: written anew if a name comes twice in it. */
const passing = family(
  'gate: a message that passes',
  { value: valueNames, where: ['params', 'member', '_meta'], defect: ['none', 'a duplicate'] },
  ({ value, where, defect }, budget) =>
    fit(budget, (size) => {
      const huge = values[value](size);
      const inside = where === 'params' && huge.startsWith('{') ? huge.slice(1, -1) : `"x":${huge}`;
      const all = `${inside}${defect === 'none' ? '' : ',"y":1,"y":2'}`;
      const params = where === '_meta' ? `{"_meta":{${all},"X-DRS-Bundle":"e30"}}` : `{${all}}`;
      return gateRequest('mcp', '', `{"jsonrpc":"2.0","id":1,"method":"ping","params":${params}}`);
    }),
  'gate',
);

/** A body over plain HTTP. All of it is compared. */
const plain = family(
  'gate: a plain HTTP body',
  { value: valueNames, where: ['document', 'member'], carrier: ['header', 'none'] },
  ({ value, where, carrier }, budget) => {
    const header = carrier === 'header' ? carried() : '';
    return fit(budget - header.length, (size) => {
      const huge = values[value](size);
      return gateRequest('http', header, where === 'document' ? huge : `{"tool":"search","x":${huge}}`);
    });
  },
  'gate',
);

/** Where the gate is asked, and how. */
const DOORS = ['a request', 'body', 'body_text', 'gRPC'] as const;

/** A call of one kind, in the form of each door. */
interface CallText {
  readonly protocol: 'mcp' | 'http' | 'a2a';
  readonly target?: string;
  /** Of the header; empty if there is none. */
  readonly bundle: string;
  readonly body: string;
}

function through(
  door: (typeof DOORS)[number],
  { protocol, target = 'POST /', bundle, body }: CallText,
): string {
  const [method = '', path = ''] = target.split(' ');
  switch (door) {
    case 'a request':
      return gateRequest(protocol, bundle, body, target);
    case 'body':
    case 'body_text': {
      const said = door === 'body' ? body : JSON.stringify(body);
      const headers = bundle === '' ? '{}' : `{"x-drs-bundle":"${bundle}"}`;
      // Without a path, only the body of a plain request is compared.
      const where = path === '/' ? '' : `"path":"${path}",`;
      return `{"protocol":"${protocol}","method":"${method}",${where}"headers":${headers},"${door}":${said}}`;
    }
    case 'gRPC': {
      const header = bundle === '' ? '' : field(3, field(1, 'x-drs-bundle') + field(2, bundle));
      const http =
        field(2, method) + header + field(4, path) + field(11, Buffer.from(body).toString('latin1'));
      const extension = field(10, field(1, 'drs_protocol') + field(2, protocol));
      return field(1, field(4, field(2, http)) + extension);
    }
  }
}

/** Signed arguments and body are equal but for the last member: the refusal names it. */
const differences = DOORS.map((door) =>
  family(
    `gate: a binding that differs late, ${door}`,
    {
      protocol: ['mcp', 'http', 'a2a', 'rest'],
      value: valueNames,
      where: ['last', 'in names', 'at the top'],
    },
    ({ protocol, value, where }, budget) =>
      fit(budget, (size) => {
        const huge = values[value](size);
        const isAtTop = where === 'at the top' && huge.startsWith('{');
        const first = isAtTop ? huge.slice(1, -1) : `"x":${huge}`;
        const more = (last: string) => `${first},"${where === 'in names' ? last : 'y'}":${last}`;
        const isA2a = protocol === 'a2a' || protocol === 'rest';
        const tool = isA2a ? 'SendMessage' : 'search';
        const args = new Raw(`{"estimated_cost_usd":0.05,"tool":"${tool}",${more('1')}}`);
        const cmd = isA2a ? '/a2a/SendMessage' : '/mcp/tools/call';
        const signed = signedRequest({
          receipt: () => ({ cmd: isA2a ? '/a2a' : '/mcp', policy: {} }),
          invocation: { args, cmd },
        });
        const bundle = Buffer.from(signed).toString('base64url');
        const others = `"estimated_cost_usd":0.05,${more('2')}`;
        switch (protocol) {
          case 'http':
            return through(door, { protocol, bundle, body: `{"tool":"search",${others}}` });
          case 'rest':
            return through(door, {
              protocol: 'a2a',
              target: 'POST /message:send',
              bundle,
              body: `{${others}}`,
            });
          case 'a2a': {
            const body = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{${others}}}`;
            return through(door, { protocol, bundle, body });
          }
          case 'mcp': {
            const params = `{"name":"search","_meta":{"X-DRS-Bundle":"${bundle}"},"arguments":{${others}}}`;
            const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`;
            return through(door, { protocol, bundle: '', body });
          }
        }
      }),
    door === 'a request' ? 'gate' : door === 'gRPC' ? 'grpc' : 'described',
  ),
);

const MEMBERS: readonly string[] = [
  ...['uri', 'name', 'taskId', 'arguments', 'ref', 'argument', 'context', 'notifications'],
  ...['inputResponses', 'requestState', 'task', '_meta', 'other'],
];

/** A gated method of MCP of which one member is huge, signed as it is or not. */
const methods = family(
  "gate: MCP's gated methods",
  {
    method: GATED_METHODS,
    member: MEMBERS,
    value: valueNames,
    signed: ['nothing', 'the same', 'another'],
  },
  ({ method, member, value, signed }, budget) =>
    fit(budget, (size) => {
      const huge = values[value](size);
      const ordinary: Record<string, string> = {
        ...{ uri: '"file:///a"', name: '"search"', taskId: '"7"' },
        ...{ ref: '{"type":"ref/prompt","name":"a"}', argument: '{"name":"a","value":"b"}' },
        notifications: '{"resourceSubscriptions":["file:///a"]}',
      };
      const required = {
        'completion/complete': ['ref', 'argument'],
        'subscriptions/listen': ['notifications'],
      }[method] ?? [/^task/.test(method) ? 'taskId' : /^res/.test(method) ? 'uri' : 'name'];
      const params = new Map(required.map((name) => [name, ordinary[name] ?? '""']));
      if (member !== '_meta')
        params.set(member, member === 'notifications' ? `{"resourceSubscriptions":[${huge}]}` : huge);
      const text = (last: string) =>
        `{${[...params].map(([name, content]) => `"${name}":${content}`).join(',')}${last}}`;
      const read = signed === 'nothing' ? null : mcpArgumentsOf(method, JSON.parse(text('')) as never);
      const args = read !== null && 'args' in read ? read.args : { tool: method };
      const bundle = Buffer.from(
        signedRequest({
          receipt: () => ({ cmd: '/mcp', policy: {} }),
          invocation: {
            args: signed === 'another' ? { ...args, y: 1 } : args,
            cmd: `/mcp/${method}`,
          },
        }),
      ).toString('base64url');
      const meta = `,"_meta":{"X-DRS-Bundle":"${bundle}"${member === '_meta' ? `,"x":${huge}` : ''}}`;
      return gateRequest('mcp', '', `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${text(meta)}}`);
    }),
  'gate',
);

/** A path and a query of A2A over REST, which may have any names. */
const rest = family(
  'gate: A2A over REST',
  {
    part: ['prefix', 'prefixes', 'id', 'value', 'pairs', 'names', 'body', 'names and members'],
    text: ['a', '%20', '%c3%a9', '%', '+', ':', 'tasks', '%41'],
    target: ['GET /tasks/', 'POST /message:send', 'POST /tasks/', 'DELETE /tasks/7/pushNotificationConfigs/'],
    value: valueNames,
  },
  ({ part, text, target, value }, budget) =>
    fit(budget, (size) => {
      // A path has at most 65,536 characters.
      const room = Math.min(size, 65_000);
      const [method = '', end = ''] = target.split(' ');
      const long = text.repeat(Math.ceil(room / text.length));
      const verb = end.endsWith('/') ? `${end}1${method === 'POST' ? ':cancel' : ''}` : end;
      const path = {
        prefix: () => `/${long}${verb}`,
        prefixes: () => `${`/${text}`.repeat(Math.ceil(room / (text.length + 1)))}${verb}`,
        id: () => verb.replace('1', () => long),
        value: () => `${verb}?q0=${long}`,
        pairs: () => `${verb}?${list(Math.ceil(room / 6), () => 'q0=1').join('&')}`,
        names: () => `${verb}?${list(Math.ceil(room / 12), (index) => `q${index}=${text}`).join('&')}`,
        body: () => verb,
        'names and members': () => `${verb}?${list(Math.ceil(room / 12), (index) => `q${index}=`).join('&')}`,
      }[part]();
      const huge = values[value](size);
      const members = huge.startsWith('{') ? huge : `{"x":${huge}}`;
      const ordinary = part === 'body' ? `{"message":${huge}}` : '{}';
      const body = part === 'names and members' ? members : ordinary;
      return gateRequest('a2a', carried(), body, `${method} ${path}`);
    }),
  'gate',
);

/** A question over gRPC with many headers, before and after what it may hold. */
const wire = family(
  'gate: headers over gRPC',
  {
    name: ['', 'x', 'x-drs-bundle', 'accept', 'x-original-uri'],
    value: ['', 'a', 'e30'],
    place: ['headers', 'header map', 'extensions', 'unknown'],
    bytes: ['within', 'all'],
  },
  ({ name, value, place, bytes }, budget) =>
    fit(bytes === 'all' ? budget : Math.min(budget, HEADER_BYTES), (size) => {
      const content = field(1, name) + field(2, value);
      const count = Math.max(1, Math.floor(size / (content.length + 2)));
      const many = (id: number) => field(id, content).repeat(count);
      const within = { headers: many(3), 'header map': field(13, many(1)), extensions: '', unknown: many(9) };
      const http = field(2, 'POST') + field(4, '/') + field(11, '{}') + within[place];
      return field(1, field(4, field(2, http)) + (place === 'extensions' ? many(10) : ''));
    }),
  'grpc',
);

/** The bundle's header has the maximum length that a front end allows. */
const header = family(
  'gate: the bundle in the header',
  {
    protocol: ['mcp', 'http', 'a2a'],
    value: valueNames,
    form: ['json', 'receipts', 'junk', 'commas'],
  },
  ({ protocol, value, form }, budget) => {
    const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}';
    return fit(Math.min(budget, HEADER_BYTES), (size) => {
      const huge = values[value](size * 0.7);
      const text =
        form === 'receipts' ? `{"bundle_version":"4.0","receipts":${huge},"invocation":"a"}` : huge;
      const encoded = form === 'junk' ? '-_'.repeat(size / 2) : Buffer.from(text).toString('base64url');
      return gateRequest(protocol, form === 'commas' ? 'e30,'.repeat(size / 4) : encoded, body);
    });
  },
  'gate',
);

/** A spelling of a name, with letters in upper case as the bits of a number say. */
const spell = (name: string, bits: number) => {
  let letters = 0;
  return name.replace(/[a-z]/g, (letter) => ((bits >> letters++) % 2 === 1 ? letter.toUpperCase() : letter));
};
/** The number of spellings of the header, which has ten letters; the last one is all upper case. */
const SPELLINGS = 2 ** 10;

/** A request to `/v1/gate` that describes many headers, or one with many values. */
const headers = family(
  'gate: headers that /v1/gate is told of',
  {
    protocol: ['mcp', 'http', 'a2a'],
    names: ['one', 'spellings', 'spellings after many values', 'spellings of another', 'distinct', 'long'],
    values: ['no text', 'text', 'no texts', 'empty texts', 'texts'],
  },
  ({ protocol, names, values }, budget) =>
    fit(budget, (size) => {
      const count = Math.max(1, Math.floor(size / 20));
      const many = `"X-DRS-BUNDLE":[${list(count, () => '""').join()}]`;
      const some = names === 'one' ? count : 3;
      const written = {
        'no text': '""',
        text: `"${carried()}"`,
        'no texts': '[]',
        'empty texts': `[${list(some, () => '""').join()}]`,
        texts: `[${list(some, String).join()}]`.replace(/\d+/g, '"$&"'),
      }[values];
      const named = (each: string) => `"${each}":${written}`;
      const spellings = (of: string, most: number) =>
        list(Math.min(count, most), (bits) => named(spell(of, bits)));
      const all = {
        one: () => [named('x-drs-bundle')],
        spellings: () => spellings('x-drs-bundle', SPELLINGS),
        'spellings after many values': () => [many, ...spellings('x-drs-bundle', SPELLINGS - 1)],
        'spellings of another': () => spellings('x-abcdefghijklmnopqrst', 2 ** 20),
        distinct: () => list(count, (index) => named(`x-${index}`)),
        long: () =>
          list(Math.max(1, Math.floor(count / 100)), (index) => named(`${'y'.repeat(2000)}${index}`)),
      }[names]();
      return `{"protocol":"${protocol}","headers":{${all.join()}},"body":{}}`;
    }),
  'described',
);

/** A request to `/v1/gate` in which one of the headers that the gate reads is long, or has many values. */
const read = family(
  'gate: a header that the gate reads',
  {
    name: GATE_HEADERS,
    start: ['', 'application/json', 'application/drs-call+json', '=?base64?'],
    text: [',', ';', ' ', ';=', 'a', '"', 'values'],
    size: ['within', 'all'],
    target: ['mcp POST', 'mcp GET', 'http POST', 'a2a POST'],
  },
  ({ name, start, text, size, target }, budget) =>
    fit(size === 'all' ? budget : Math.min(budget, HEADER_BYTES), (length) => {
      const [protocol, method] = target.split(' ');
      const values =
        text === 'values'
          ? list(size === 'all' ? Math.ceil(length / 3) : 90, () => start)
          : start + text.repeat(Math.ceil(length / text.length));
      const body = method === 'POST' ? { body_text: '{"jsonrpc":"2.0","id":1,"method":"ping"}' } : {};
      return JSON.stringify({ protocol, method, path: '/x0/1', headers: { [name]: values }, ...body });
    }),
  'described',
);

/** What a header repeats of the body, which is huge: nobody need have signed it. */
const REPEATING = ['mcp-method', 'mcp-name', 'mcp-param-x', 'x-http-method-override', 'x-original-url'];
const repeated = family(
  'gate: a header that names something in the body',
  {
    name: REPEATING,
    said: ['1', 'search', '0.5', '999999.0', 'true', '=?base64?MQ==?=', 'long'],
    count: [1, 90],
    value: valueNames,
    where: ['arguments', 'argument', 'name', '_meta'],
    carrier: ['none', 'header'],
  },
  ({ name, said, count, value, where, carrier }, budget) =>
    fit(budget, (size) => {
      const huge = values[value](size);
      const at = (place: string, ordinary: string) => (where === place ? huge : ordinary);
      const params = `{"name":${at('name', '"search"')},"arguments":${at('arguments', `{"x":${at('argument', '1')}}`)},"_meta":${at('_meta', '{}')}}`;
      const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`;
      const text = said === 'long' ? 'a'.repeat(HEADER_BYTES / count / 2) : said;
      // Of the other headers, one value is enough to be refused.
      const names = name === 'mcp-param-x' ? list(count, (index) => `${name}${index}`) : [name];
      const headers = Object.fromEntries(names.map((each) => [each, text]));
      return gateRequest('mcp', carrier === 'header' ? carried() : '', body, 'POST /', headers);
    }),
  'gate',
);

/** A path and a query for a table with as many routes as it may have. */
const routed = family(
  'gate: a path for a table of routes',
  {
    part: ['segment', 'segments', 'query', 'value', 'pairs', 'names'],
    text: ['a', '%20', '%c3%a9', '%', '+', ';', '.', '/'],
    body: ['{}', 'null'],
  },
  ({ part, text, body }, budget) =>
    fit(budget, (size) => {
      const long = text.repeat(Math.ceil(size / text.length));
      const path = {
        segment: () => `/x999/${long}`,
        segments: () => `/x999${`/${text}`.repeat(Math.ceil(size / (text.length + 1)))}`,
        query: () => `/x999/1?${long}`,
        value: () => `/x999/1?q0=${long}`,
        pairs: () => `/x999/1?${list(Math.ceil(size / 6), () => 'q0=1').join('&')}`,
        names: () => `/x999/1?${list(Math.ceil(size / 12), (index) => `q${index}=${text}`).join('&')}`,
      }[part]();
      return `{"protocol":"http","path":"${path}","headers":{"x-drs-bundle":"${carried()}"},"body":${body}}`;
    }),
  'described',
);

/** One part of an envelope is huge, on a route that takes envelopes. */
const envelope = family(
  'gate: an envelope',
  { value: valueNames, where: ['argument', 'body', 'bundle', 'receipts', 'beside'] },
  ({ value, where }, budget) =>
    fit(budget, (size) => {
      const huge = values[value](size);
      const at = (place: string, ordinary: string) => (where === place ? huge : ordinary);
      const receipts = `{"bundle_version":"4.0","receipts":${huge},"invocation":"a"}`;
      const bundle =
        where === 'receipts' ? `"${Buffer.from(receipts).toString('base64url')}"` : `"${carried()}"`;
      const body = at('body', `{"tool":"search","x":${at('argument', '1')}}`);
      const text = `{"bundle":${at('bundle', bundle)},"body":${body}${where === 'beside' ? `,"x":${huge}` : ''}}`;
      const type = 'application/drs-call+json';
      return `{"protocol":"http","path":"/x0/1","headers":{"content-type":"${type}"},"body_text":${JSON.stringify(text)}}`;
    }),
  'described',
);

/** Requests to the gate. The middleware uses the same functions. */
export const gateFamilies: readonly Family[] = [
  ...[
    message,
    passing,
    plain,
    ...differences,
    methods,
    header,
    headers,
    read,
    repeated,
    routed,
    envelope,
    rest,
    wire,
  ],
];
