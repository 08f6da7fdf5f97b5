import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bodyOfBytes } from '../../src/gate/carriers.js';
import { decide } from '../../src/gate/decide.js';
import { openRequest } from '../../src/gate/open.js';
import { readHeaders } from '../../src/gate/request.js';
import { RouteTable } from '../../src/gate/routes.js';
import { encode, liveCall, liveChain, now } from '../middleware/call.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';
import { judge, RULES, verifier } from './decide.js';
import { askGrpc, askProxy, askV1, type Ask } from './transports.js';

/** Issue 29 item 13: the second carrier of plain HTTP, at every door of the service. */
const ROUTES = JSON.stringify({
  routes: [
    { method: 'POST', path: '/search', tool: 'search', body: 'envelope' },
    { method: 'POST', path: '/files/{name}', tool: 'search', body: 'envelope' },
    { method: 'POST', path: '/json', tool: 'search' },
    { method: 'POST', path: '/none', tool: 'search', body: 'none' },
  ],
});
const TYPE = 'application/drs-call+json';
const chain = liveChain(2, { cmd: '/tools', policy: { allowed_tools: ['search', 'fetch'] } });
const args = { tool: 'search', query: 'tea' };
const bundleFor = (signed: object = args) => encode(liveCall(chain, signed, { cmd: '/tools' }));
const envelope = (body: unknown = args, signed: object = args) =>
  JSON.stringify({ bundle: bundleFor(signed), body });

interface Sent {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}
interface Row extends Sent {
  readonly name: string;
  readonly code: string;
}

/** Twice the same text, so that both carriers agree. */
const both = bundleFor();
const inner = envelope();
/** What is said of each of these; a text is a body. */
const group = (code: string, rows: Readonly<Record<string, string | Sent>>): Row[] =>
  Object.entries(rows).map(([name, sent]) => ({
    name,
    code,
    ...(typeof sent === 'string' ? { body: sent } : sent),
  }));
const ROWS: readonly Row[] = [
  ...group('allow', {
    'the signed call': envelope(),
    'its members in the other order': reversed(envelope()),
    'white space and escapes': spaced(envelope()),
    'a charset': { body: envelope(), ...type(`${TYPE}; charset=UTF-8`) },
    capitals: { body: envelope(), ...type('Application/DRS-Call+JSON;charset="utf-8"') },
    'no tool in the body': envelope({ query: 'tea' }),
    'an argument of the path': {
      path: '/files/a.txt',
      body: envelope({}, { tool: 'search', name: 'a.txt' }),
    },
    'plain JSON with a header': {
      headers: { 'content-type': 'application/json', 'x-drs-bundle': both },
      body: JSON.stringify(args),
    },
    'the same bundle in the header': {
      headers: { 'x-drs-bundle': both },
      body: JSON.stringify({ bundle: both, body: args }),
    },
  }),
  ...group('MULTIPLE_BUNDLES', {
    'another bundle in the header': { headers: { 'x-drs-bundle': bundleFor() }, body: envelope() },
    'an empty bundle in the header': { headers: { 'x-drs-bundle': '' }, body: envelope() },
    'an envelope that was signed as the body of a plain call': {
      headers: { 'x-drs-bundle': bundleFor(JSON.parse(inner) as object) },
      body: inner,
    },
  }),
  ...group('MALFORMED_BUNDLE', {
    'a bundle of spaces and that bundle': JSON.stringify({ bundle: ` ${both}`, body: args }),
    'a further member': envelope().replace('{', '{"role":"admin",'),
    'two bundles': envelope().replace('{', `{"bundle":"${both}",`),
    'two bodies': envelope().replace('{', '{"body":{"tool":"search"},'),
    'two bodies, one escaped': envelope().replace('{', '{"bod\\u0079":{},'),
    'an argument twice': envelope().replace('"query"', '"query":"gold","query"'),
    'other capitals': envelope().replace('"body"', '"Body"'),
    'no body': JSON.stringify({ bundle: both }),
    'no bundle': JSON.stringify({ body: args }),
    'a bundle in an array': JSON.stringify({ bundle: [both], body: args }),
    'an empty bundle': JSON.stringify({ bundle: '', body: args }),
    'an array': `[${envelope()}]`,
    'no JSON': 'x',
    nothing: '',
  }),
  ...group('BINDING_MISMATCH', {
    'another body': envelope({ ...args, query: 'gold' }),
    'a further argument': envelope({ ...args, as: 'root' }),
    'an array as the body': envelope([args]),
    'null as the body': envelope(null),
    'a number beyond 2^53': envelope({ ...args, n: 2 ** 60 }, { ...args, n: 2 ** 60 }),
    'a nested envelope, signed for the innermost body': JSON.stringify({
      bundle: both,
      body: JSON.parse(inner) as unknown,
    }),
  }),
  ...group('TOOL_MISMATCH', {
    'another tool, signed': envelope({ tool: 'fetch' }, { tool: 'fetch' }),
  }),
  ...group('MISSING_BUNDLE', {
    'a coding': { headers: { 'content-encoding': 'gzip' }, body: envelope() },
  }),
  ...group('UNKNOWN_ROUTE', {
    'on a path without a route': { path: '/x', body: envelope() },
  }),
  ...[
    `${TYPE}; charset=utf-16`,
    `${TYPE}; charset=utf-7`,
    `${TYPE}; version=1`,
    `${TYPE}; charset=utf-8; charset=utf-16`,
    `${TYPE};`,
    `${TYPE}, application/json`,
    'application/json',
    'application/drs-call',
    'application/x+drs-call+json',
    'text/plain',
  ].flatMap((wrong) => [
    { name: `the type ${wrong}`, body: envelope(), ...type(wrong), code: 'MISSING_BUNDLE' },
    {
      name: `the type ${wrong}, and a header`,
      headers: { 'content-type': wrong, 'x-drs-bundle': bundleFor() },
      ...{ body: envelope(), code: 'BINDING_MISMATCH' },
    },
  ]),
  ...['/json', '/none'].flatMap((elsewhere) => [
    { name: `on ${elsewhere}`, path: elsewhere, body: envelope(), code: 'MISSING_BUNDLE' },
    {
      name: `on ${elsewhere}, and in the header`,
      headers: { 'x-drs-bundle': both },
      ...{ path: elsewhere, body: JSON.stringify({ bundle: both, body: args }), code: 'BINDING_MISMATCH' },
    },
    {
      name: `on ${elsewhere}, signed as the arguments`,
      headers: { 'x-drs-bundle': bundleFor({ tool: 'search', ...(JSON.parse(inner) as object) }) },
      ...{ path: elsewhere, body: inner, code: 'BINDING_MISMATCH' },
    },
  ]),
];

function type(value: string) {
  return { headers: { 'content-type': value } };
}

function reversed(text: string): string {
  const { bundle, body } = JSON.parse(text) as { bundle: string; body: unknown };
  return JSON.stringify({ body, bundle });
}

function spaced(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2).replace('"tea"', '"t\\u0065a"');
}

type Door = (sent: Required<Sent>) => Promise<string>;
/** Asks in one of the ways to a service. */
const through =
  (ask: () => Ask): Door =>
  async ({ path: at, headers, body }) => {
    const { decision, code } = await ask()('http', { at, body, headers: Object.entries(headers) });
    return decision === 'deny' ? code : decision;
  };
const folder = mkdtempSync(path.join(tmpdir(), 'drs-envelope-'));
let service: RunningService;
let any: RunningService;
let gateway: ReturnType<typeof askGrpc>;
beforeAll(async () => {
  const file = path.join(folder, 'routes.json');
  writeFileSync(file, ROUTES);
  // Each door may see the same bundle once.
  const settings = { GATE_REPLAY: 'off', SERVER_IDENTITY: 'any' };
  service = await startService({ ...settings, GATE_ROUTES: file, GRPC_PORT: '0' });
  any = await startService({ ...settings, GATE_ROUTES: 'any' });
  gateway = askGrpc(service);
});
afterAll(async () => {
  gateway.close();
  await Promise.all([service.stop(), any.stop(), verifier.close()]);
  rmSync(folder, { recursive: true });
});

const DOORS: Readonly<Record<string, Door>> = {
  'the pure gate': async ({ path: asked, headers, body }) => {
    const lookup = readHeaders(headers);
    const opened = openRequest(
      'http',
      { method: 'POST', target: asked, headers: lookup, body: bodyOfBytes(Buffer.from(body), lookup) },
      { routes: RouteTable.parse(ROUTES) },
    );
    if (opened.kind !== 'check') return opened.kind === 'deny' ? opened.failure.code : opened.kind;
    const decided = await decide(opened, await judge(opened), { now, use: null, rules: RULES });
    return decided.kind === 'deny' ? decided.failure.code : decided.kind;
  },
  '/gate/http': through(() => askProxy(service)),
  '/v1/gate': through(() => askV1(service)),
  gRPC: through(() => gateway.ask),
};

describe.each(Object.keys(DOORS))('an envelope at %s', (door) => {
  it.each(ROWS)('$name: $code', async ({ path: asked = '/search', headers = {}, body, code }) => {
    const said = await (DOORS[door] as Door)({
      ...{ path: asked, body },
      headers: { 'content-type': TYPE, ...headers },
    });
    expect(said).toBe(code);
  });
});

describe('an envelope', () => {
  it.each([
    ['/gate/http', askProxy],
    ['/v1/gate', askV1],
  ])('is no body of JSON at %s with GATE_ROUTES=any', async (_, way) => {
    const ask = through(() => way(any));
    const headers = { 'content-type': TYPE };
    expect(await ask({ path: '/search', headers, body: envelope() })).toBe('MISSING_BUNDLE');
    // Else who unwraps it would act on something that nobody compared.
    const signed = { tool: 'search', ...(JSON.parse(inner) as object) };
    const asked = { path: '/', body: JSON.stringify(signed) };
    const signedAs = (type: string) => ({ 'content-type': type, 'x-drs-bundle': bundleFor(signed) });
    expect(await ask({ ...asked, headers: signedAs(TYPE) })).toBe('BINDING_MISMATCH');
    expect(await ask({ ...asked, headers: signedAs('application/json') })).toBe('allow');
    const plain = { 'content-type': 'application/json', 'x-drs-bundle': bundleFor() };
    expect(await ask({ path: '/', headers: plain, body: JSON.stringify(args) })).toBe('allow');
  });

  it('is no message of MCP or A2A', async () => {
    const signed = encode(
      liveCall(
        liveChain(2, { cmd: '/a2a', policy: {} }),
        { tool: 'GetTask', id: '7' },
        { cmd: '/a2a/GetTask' },
      ),
    );
    const ask = async (protocol: string, method: string, contentType: string) => {
      const said = await service.post('/v1/gate', {
        ...{ protocol, headers: { 'content-type': contentType, 'x-drs-bundle': signed } },
        body_text: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { id: '7' } }),
      });
      const { allow, response } = (await said.json()) as { allow: boolean; response?: unknown };
      return allow ? 'allow' : (response as { error: { data: { code: string } } }).error.data.code;
    };
    for (const [protocol, method] of [
      ['mcp', 'ping'],
      ['a2a', 'GetTask'],
    ] as const) {
      expect(await ask(protocol, method, TYPE)).toBe('BINDING_MISMATCH');
      expect(await ask(protocol, method, 'application/json')).toBe('allow');
    }
  });

  it('must come to /v1/gate as text', async () => {
    const said = await service.post('/v1/gate', {
      ...{ protocol: 'http', path: '/search', headers: { 'content-type': TYPE } },
      body: JSON.parse(envelope()) as unknown,
    });
    expect(await said.json()).toMatchObject({
      response: {
        error: { code: 'MALFORMED_BUNDLE', message: expect.stringContaining('body_text') as string },
      },
    });
  });

  it('is refused with what to do where it is not taken', async () => {
    const response = await fetch(`${service.url}/gate/http/json`, {
      ...{ method: 'POST', headers: { 'content-type': TYPE }, body: envelope() },
    });
    expect(await response.json()).toMatchObject({
      error: { code: 'MISSING_BUNDLE', message: expect.stringContaining('takes no envelopes') as string },
    });
  });
});
