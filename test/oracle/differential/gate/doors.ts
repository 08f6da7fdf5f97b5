import { revocationOf, type Revoked } from '../request.js';
import { once } from 'node:events';
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { Hono, type Context } from 'hono';
import { pino } from 'pino';
import { Pool } from 'undici';
import { askMcp } from '../../../support/mcp-message.js';
import { AUTHORIZATION, callOnce, clientOf } from '../../../support/grpc.js';
import { createVerifier, type Verifier, type VerifierOptions } from '../../../../src/index.js';
import { drsA2a } from '../../../../src/middleware/a2a/index.js';
import {
  createMemoryReplayStore,
  drsContext,
  drsFetch,
  drsMiddleware,
  findDrsContext,
} from '../../../../src/middleware/index.js';
import { drsMcp } from '../../../../src/middleware/mcp/index.js';
import { stdioGuard } from '../../../../src/relay/guard-stdio.js';
import { messageOf } from '../../../../src/relay/message.js';
import { readConfiguration } from '../../../../src/service/configuration/configuration.js';
import { Closers } from '../../../../src/service/closers.js';
import { openCore } from '../../../../src/service/core.js';
import { drsFastify } from '../../../../src/middleware/fastify/index.js';
import { drsHono } from '../../../../src/middleware/hono/index.js';
import { startService } from '../../../../src/service/service.js';
import type { Found, GateAnswer, GateBody, Protocol, Route } from '../../gate.js';
import { fromValue, hasDuplicateNames, member, readJson, writeJson, type Json } from '../../json.js';
import type { GateRequest } from './requests.js';
import { framework, type GateWorld as World } from './routes.js';
import { SKEW_SECS } from '../../oracle.js';

/** A door of a gate. The gate is in this process, so that the run controls its clock. */
export interface GateDoor {
  readonly name: string;
  /** The members of a context that it shows; `undefined` for all. */
  readonly members?: readonly string[];
  /** The name of the replay store. Doors with the same name share a store. */
  readonly scope: string;
  /** The request as the gate gets it; `undefined` if this door cannot carry it; a status if it is refused before. */
  sees(request: GateRequest): Seen | number | undefined;
  /** Why this door cannot carry a request, if it has rules of its own for that; `undefined` if it can. */
  leavesOut?(request: GateRequest): string | undefined;
  ask(request: GateRequest): Promise<string>;
}

export interface Seen {
  readonly protocol: Protocol;
  readonly method: string;
  readonly path?: string | undefined;
  readonly headers: GateRequest['headers'];
  readonly body: GateBody;
  readonly routes?: 'any' | readonly Route[] | Found | undefined;
}

/** All doors, on verifiers with different caches. */
export interface Doors {
  readonly doors: readonly GateDoor[];
  revoke(target: Revoked): Promise<void>;
  close(): Promise<void>;
}

const TINY = 20_000;
// What an admin does is logged at every level.
const QUIET = { write: () => undefined };
const ADMIN = 'differential-admin-token';

export async function openDoors(world: World, listUrl: string | undefined): Promise<Doors> {
  const { trustedRoots, tools, ...settings } = world.settings;
  const list =
    listUrl === undefined
      ? {}
      : {
          statusListBaseUrl: listUrl,
          statusListForm: 'raw' as const,
          statusCacheTtlSecs: 300,
          statusFetchTimeoutMs: 9_000,
        };
  const options = {
    ...settings,
    ...list,
    ...(trustedRoots && { trustedRoots: [...trustedRoots] }),
    ...(tools && { tools: [...tools] }),
    workerThreads: 0,
  };
  const cached = createVerifier(options);
  const tiny = createVerifier({ ...options, receiptCacheBytes: TINY });
  const services = [
    await openGateService(options, world),
    await openGateService({ ...options, receiptCacheBytes: TINY }, world),
  ];
  const node = await openNode(tiny, world);
  const [one, other] = services as [GateService, GateService];
  const guard = await openGuard(options);
  return {
    doors: [
      fetchDoor(cached, world, 'drsFetch'),
      fetchDoor(tiny, world, 'drsHono'),
      ...node.doors,
      mcpDoor(cached, world),
      v1Door(one, world, 'text'),
      v1Door(other, world, 'value'),
      proxyDoor(one, world),
      grpcDoor(other, world),
      guard,
    ],
    async revoke(target) {
      await guard.revoke(target);
      await cached.revoke(revocationOf(target));
      await tiny.revoke(revocationOf(target));
      for (const service of services) await service.revoke(target);
    },
    async close() {
      await guard.close();
      await node.close();
      for (const service of services) await service.close();
      await cached.close();
      await tiny.close();
    },
  };
}

/** Options that trust everybody. Time and replays are handled as in the service. */
const open = (world: World) =>
  ({
    trustedRoots: 'any',
    serverIdentity: 'any',
    replayStore: createMemoryReplayStore(),
    clockSkewSecs: world.settings.clockSkewSecs ?? SKEW_SECS,
  }) as const;

const line = (answer: GateAnswer) => lineOf(answer, undefined);
/** The members of a context that proxies get. */
const HEADERS = [
  'root_principal',
  'root_name',
  'agent',
  'chain_depth',
  'command',
  'tool',
  'invocation',
  'binding',
];

/** A decision as one line of text, to be compared. */
export function lineOf(answer: GateAnswer, members: readonly string[] | undefined): string {
  if (answer.decision === 'pass') return 'pass';
  if (answer.decision === 'deny') return `deny ${answer.status} ${answer.code}`;
  const { leaf_policy, ...context } = answer.context as Record<string, unknown> & { leaf_policy?: Json };
  const all: Record<string, unknown> = { ...context, leaf_policy: leaf_policy && sorted(leaf_policy) };
  const shown = Object.entries(all).filter(([name]) => members === undefined || members.includes(name));
  return `allow ${JSON.stringify(Object.fromEntries(shown.sort(([a], [b]) => (a < b ? -1 : 1))))}`;
}

function sorted(json: Json): string {
  if (json.kind === 'number') return String(Number(json.text));
  if (json.kind === 'array') return `[${json.items.map(sorted).join()}]`;
  if (json.kind !== 'object') return writeJson(json);
  return `{${json.members
    .map(([name, value]) => `${JSON.stringify(name)}:${sorted(value)}`)
    .sort()
    .join()}}`;
}

/** The answer for a context of a gate, with its policy in the oracle's form. */
const allowed = (context: object): GateAnswer => ({
  decision: 'allow',
  context: { ...context, leaf_policy: fromValue((context as { leaf_policy?: unknown }).leaf_policy ?? null) },
});

const denied = (status: number, body: unknown): string => {
  const { error } = (body ?? {}) as { error?: { code?: unknown; data?: { code?: unknown } } };
  return line({ decision: 'deny', status, code: String(error?.data?.code ?? error?.code) });
};

const bytesOf = ({ headers, body }: GateRequest): GateBody => {
  const [type, coding] = ['content-type', 'content-encoding'].map((name) =>
    headers
      .filter(([other]) => other.toLowerCase().replaceAll('_', '-') === name)
      .map(([, value]) => value.replace(/^[ \t]+|[ \t]+$/g, '')),
  );
  if (coding?.some((value) => value.toLowerCase() !== 'identity')) return 'unusable';
  // No parameter but the charset.
  const json = /^application\/(?:[\w.-]+\+)?json(?:[ \t]*;[ \t]*charset=(?:utf-?8|"utf-?8"))?$/i;
  return type?.every((value) => json.test(value)) && type.length < 2 ? { text: body } : 'unusable';
};

/** The body that reaches a middleware: it knows that there is none. */
const readBody = (request: GateRequest): GateBody => {
  const bytes = bytesOf(request);
  return sentBody(request) === '' && bytes !== 'unusable' ? 'none' : bytes;
};

/** The body that `send` sends. */
const sentBody = ({ method, body }: GateRequest) => (/^(GET|HEAD)$/.test(method) ? '' : body);

/** Paths that are sent as they are, and answers that have a body. */
const isSendable = (request: GateRequest) =>
  isPrintable(request) && request.method !== 'HEAD' && /^\/[\x21-\x7e]*$/.test(request.path);

/** Whether the front end refuses a header's name. */
const hasOddName = ({ headers }: GateRequest) => headers.some(([name]) => !/^[a-z\d-]+$/i.test(name));

/** Whether an HTTP client sends these headers as they are: it writes those of the connection itself. */
const isPrintable = (request: GateRequest) =>
  request.headers.every(
    ([name, value]) =>
      /^[\x21-\x7e](?:[ -~]*[\x21-\x7e])?$/.test(value) && !/^(?:connection|upgrade)$/i.test(name),
  );

/** The middleware of each route, by its place in the table; that of all requests without a table. */
function ofRoutes<T>(
  { routes }: World,
  make: (options: RouteSettings) => T,
): (request: Pick<GateRequest, 'method' | 'path'>) => T | undefined {
  const all = make({ tool: 'any' });
  if (routes === undefined) return () => all;
  const made = new Map(
    routes.map((route) => {
      const { tool, command } = route;
      const parameters = ({ method, url }: { method?: string | undefined; url?: string | undefined }) =>
        framework(routes, { method: method ?? '', path: (url ?? '').replace(/^https?:..[^/]*/, '') })
          ?.parameters ?? {};
      return [route, make({ tool, ...(command !== undefined && { command }), parameters })] as const;
    }),
  );
  return (request) => {
    const found = framework(routes, request);
    return found && made.get(found.route);
  };
}

interface RouteSettings {
  readonly tool: string;
  readonly command?: string;
  readonly parameters?: (request: {
    method?: string | undefined;
    url?: string | undefined;
  }) => Readonly<Record<string, string>>;
}

/** What a middleware is told of the route of a request. */
const foundIn = ({ routes }: World, request: GateRequest): Found | undefined =>
  routes === undefined ? { tool: 'any' } : framework(routes, request);

function fetchDoor(verifier: Verifier, world: World, name: 'drsFetch' | 'drsHono'): GateDoor {
  const options = { ...open(world), verifier };
  const handlerOf = ofRoutes(world, (route) => {
    if (name === 'drsFetch')
      return drsFetch({ ...options, ...route }, () => Response.json({ context: drsContext() }));
    const parameters = route.parameters && ((c: Context) => route.parameters?.(c.req.raw) ?? {});
    const app = new Hono();
    app.all('*', drsHono({ ...options, ...route, ...(parameters && { parameters }) } as never), (c) =>
      c.json({ context: drsContext() }),
    );
    return async (request: Request) => app.fetch(request);
  });
  const asked = ({ path }: GateRequest) => new URL(`http://tool.example${path}`);
  return {
    name,
    scope: name,
    sees(request) {
      if (request.protocol !== 'http' || /^(GET|HEAD)$/.test(request.method)) return undefined;
      if (!isPrintable(request) || !isSendable(request) || request.path.includes('#')) return undefined;
      const { pathname, search } = asked(request);
      const path = pathname + search;
      const routes = foundIn(world, { ...request, path });
      return routes && { ...request, path, body: readBody(request), routes };
    },
    async ask(request) {
      const { method, headers, body } = request;
      const url = asked(request);
      const handle = handlerOf({ method, path: url.pathname + url.search });
      const answer = await handle?.(
        new Request(url, {
          method,
          headers: headers.map(([name, value]) => [name, value]),
          body,
        }),
      );
      if (answer === undefined) throw new Error('this door cannot carry the request');
      const json = (await answer.json()) as { context: object };
      return answer.status === 200 ? line(allowed(json.context)) : denied(answer.status, json);
    },
  };
}

/** The paths of requests that are not made for a route. */
const PLAIN_PATHS = ['/some/path', '/', '/mcp', '/a b'];

/** Whether a handler of Fastify gets a request: it answers other paths, types that are none and some methods itself. */
const isForFastify = ({ routes }: World, { path, method }: GateRequest) =>
  (routes !== undefined || /^(?:\/some\/path|\/|\/mcp|\/a%20b)(?:$|\?)/.test(path)) &&
  !/^(?:OPTIONS|PATCH)$/.test(method);

/** The middleware for node:http, Fastify and A2A, behind real sockets. */
async function openNode(
  verifier: Verifier,
  world: World,
): Promise<{ doors: GateDoor[]; close(): Promise<void> }> {
  const options = { ...open(world), verifier };
  const middlewareOf = ofRoutes(world, (route) => drsMiddleware({ ...options, ...route }));
  const http: ReturnType<typeof drsMiddleware> = (req, res, next) =>
    middlewareOf({ method: req.method ?? '', path: req.url ?? '' })?.(req, res, next);
  const a2a = drsA2a({ ...open(world), verifier });
  const apps: FastifyInstance[] = [];
  const fastifyOptions = { ...open(world), verifier };
  const appOf = ofRoutes(world, (route) => {
    const app = fastify({ routerOptions: { ignoreTrailingSlash: false, maxParamLength: 65_536 } });
    const parameters =
      route.parameters && ((request: FastifyRequest) => route.parameters?.(request.raw) ?? {});
    void app.register(drsFastify, {
      ...fastifyOptions,
      ...route,
      ...(parameters && { parameters }),
    } as never);
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'string' }, (_request, _body, done) => done(null));
    void app.register((tools, _, done) => {
      // A wildcard is a parameter of the path, which must be named.
      for (const path of parameters === undefined ? PLAIN_PATHS : ['*'])
        tools.all(path, (request) => ({ context: request.drs }));
      done();
    });
    apps.push(app);
    return app;
  });
  await Promise.all(apps.map((app) => app.ready()));
  const throughFastify: RequestListener = (req, res) =>
    appOf({ method: req.method ?? '', path: req.url ?? '' })?.routing(req, res);
  const finish = (req: IncomingMessage, res: ServerResponse) => () => {
    let context: unknown = null;
    try {
      context = drsContext(req);
    } catch {
      // There is no context: the request passed unchecked.
    }
    res.end(JSON.stringify({ context }));
  };
  const behind = async (listener: RequestListener) => {
    const server = createServer({ maxHeaderSize: 65_536 }, listener).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return { server, pool: new Pool(`http://127.0.0.1:${port}`, { connections: 4 }) };
  };
  const served = {
    http: await behind((req, res) => http(req, res, finish(req, res))),
    a2a: await behind((req, res) => a2a(req, res, finish(req, res))),
    fastify: await behind(throughFastify),
  };
  const door = (protocol: 'http' | 'a2a', at: keyof typeof served = protocol): GateDoor => ({
    name: `node:http ${protocol}`,
    scope: `node:http ${protocol}`,
    sees(request) {
      if (request.protocol !== protocol || !isSendable(request)) return undefined;
      const routes = protocol === 'http' ? foundIn(world, request) : 'any';
      return routes && { ...request, protocol, body: readBody(request), routes };
    },
    async ask(request) {
      const { status, json } = await send(served[at].pool, request.path, request);
      if (status !== 200) return denied(status, json);
      const { context } = json as { context: object | null };
      return line(context === null ? { decision: 'pass' } : allowed(context));
    },
  });
  return {
    doors: [
      door('http'),
      door('a2a'),
      {
        ...door('http', 'fastify'),
        name: 'drsFastify',
        scope: 'drsFastify',
        sees: (request) => (isForFastify(world, request) ? door('http').sees(request) : undefined),
      },
    ],
    async close() {
      await Promise.all(apps.map((app) => app.close()));
      for (const { server, pool } of Object.values(served)) {
        await pool.close();
        server.close();
        server.closeAllConnections();
      }
    },
  };
}

async function send(pool: Pool, path: string, request: GateRequest) {
  const { method, headers } = request;
  const body = sentBody(request);
  const answer = await pool.request({
    method,
    path,
    headers: headers.flat(),
    body: body === '' ? null : body,
  });
  const text = await answer.body.text();
  const json: unknown = text === '' ? null : JSON.parse(text);
  return { status: answer.statusCode, headers: answer.headers, json };
}

/** A message, as the SDKs pass it on. */
function mcpDoor(verifier: Verifier, world: World): GateDoor {
  const protection = drsMcp({ ...open(world), verifier });
  const callIn = ({ body }: GateRequest) => {
    const read = readJson(body);
    const [params, method] = ['params', 'method'].map((name) =>
      read?.kind === 'object' ? member(read, name) : undefined,
    );
    return params?.kind === 'object' && method?.kind === 'string'
      ? { method: method.value, params: JSON.parse(writeJson(params)) as object }
      : undefined;
  };
  return {
    name: 'drsMcp',
    scope: 'drsMcp',
    sees(request) {
      const call = callIn(request);
      if (request.protocol !== 'mcp' || call === undefined || !isPrintable(request)) return undefined;
      const body = { value: fromValue({ jsonrpc: '2.0', id: 0, ...call }) };
      // `Headers` joins repeated headers with a comma.
      return { ...request, method: 'POST', path: undefined, headers: joined(request.headers), body };
    },
    async ask(request) {
      const call = callIn(request);
      if (call === undefined) throw new Error('this door cannot carry the request');
      const headers = new Headers(request.headers.map(([name, value]) => [name, value]));
      try {
        const context = await askMcp(protection, call, findDrsContext, { request: { headers } });
        return line(context === null ? { decision: 'pass' } : allowed(context));
      } catch (error) {
        const { data } = error as { readonly data?: { readonly code: string; readonly status: number } };
        if (data === undefined) throw error;
        return line({ decision: 'deny', code: data.code, status: data.status });
      }
    },
  };
}

const joined = (headers: GateRequest['headers']): GateRequest['headers'] => [
  ...new Headers(headers.map(([name, value]) => [name, value])),
];

interface GateService {
  readonly pool: Pool;
  readonly envoy: ReturnType<typeof clientOf>;
  revoke(target: Revoked): Promise<void>;
  close(): Promise<void>;
}

/** The gates of the service with everything in front of them, in this process. */
async function openGateService(options: VerifierOptions, { routes }: World): Promise<GateService> {
  const folder = mkdtempSync(join(tmpdir(), 'drs-differential-'));
  const file = join(folder, 'routes.json');
  writeFileSync(file, JSON.stringify({ routes: routes ?? [] }));
  const configuration = {
    ...readConfiguration({
      PORT: '0',
      FRONT_END: 'node',
      DRS_ADMIN_TOKEN: ADMIN,
      GATE_ROUTES: routes === undefined ? 'any' : file,
      LOG_LEVEL: 'silent',
      SERVER_IDENTITY: 'any',
      GRPC_PORT: '0',
    }),
    ...options,
  };
  const service = await startService(configuration as never, pino({ level: 'silent' }, QUIET));
  const pool = new Pool(`http://127.0.0.1:${service.port}`, { connections: 4 });
  const envoy = clientOf(AUTHORIZATION, service.grpcPort ?? 0);
  return {
    pool,
    envoy,
    async revoke(target) {
      const answer = await pool.request({
        method: 'POST',
        path: '/admin/revoke',
        headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
        body: JSON.stringify(revocationOf(target)),
      });
      if (answer.statusCode !== 200) throw new Error(`/admin/revoke answered ${answer.statusCode}`);
      await answer.body.dump();
    },
    async close() {
      envoy.close();
      await pool.close();
      await service.close(true);
      rmSync(folder, { recursive: true });
    },
  };
}

/** `/v1/gate`, with the body as text or as a value. */
function v1Door({ pool }: GateService, world: World, channel: 'text' | 'value'): GateDoor {
  const routes = world.routes ?? 'any';
  const textOf = ({ protocol, method, path, headers, body }: GateRequest) => {
    const map: Record<string, string[]> = {};
    for (const [name, value] of headers) (map[name] ??= []).push(value);
    const rest = JSON.stringify({ protocol, method, path, headers: map }).slice(0, -1);
    return channel === 'text'
      ? `${rest},"body_text":${JSON.stringify(body)}}`
      : `${rest}${body === '' ? '' : `,"body":${body}`}}`;
  };
  return {
    name: `/v1/gate ${channel}`,
    scope: `/v1/gate ${channel}`,
    sees(request) {
      const bytes = bytesOf(request);
      if (channel === 'text') return { ...request, body: bytes, routes };
      const whole = readJson(textOf(request));
      if (whole === undefined || hasDuplicateNames(whole)) return 400;
      const body = whole.kind === 'object' ? member(whole, 'body') : undefined;
      if (bytes === 'unusable') return { ...request, body: bytes, routes };
      if (body === undefined || body.kind === 'null') return { ...request, body: 'none', routes };
      return { ...request, body: { value: body }, routes };
    },
    async ask(request) {
      const answer = await pool.request({
        method: 'POST',
        path: '/v1/gate',
        headers: { 'content-type': 'application/json' },
        body: textOf(request),
      });
      const json = (await answer.body.json()) as V1Answer;
      if (answer.statusCode !== 200) return `status ${answer.statusCode}`;
      if (json.allow) return line(json.gated ? allowed(json.context ?? {}) : { decision: 'pass' });
      return denied(json.status, json.response);
    },
  };
}

interface V1Answer {
  readonly allow: boolean;
  readonly gated: boolean;
  readonly status: number;
  readonly context?: object;
  readonly response?: unknown;
}

/** `/gate/*`, as a proxy uses it. It shares its store with `/v1/gate` of the same service. */
function proxyDoor({ pool }: GateService, world: World): GateDoor {
  return {
    name: '/gate/*',
    members: HEADERS,
    scope: '/v1/gate text',
    sees: (request) => {
      // Dot segments are 404 there.
      if (!isSendable(request) || /(?:\/|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/?]|%2f|%5c)/i.test(request.path))
        return undefined;
      if (hasOddName(request)) return 400;
      return {
        ...request,
        routes: world.routes ?? 'any',
        body: sentBody(request) === '' ? bytesOf({ ...request, body: '' }) : bytesOf(request),
      };
    },
    async ask(request) {
      const { status, headers, json } = await send(pool, `/gate/${request.protocol}${request.path}`, request);
      if (status === 400 && hasOddName(request)) return `status ${status}`;
      if (status !== 200) return denied(status, json);
      if (headers['x-drs-agent'] === undefined) return 'pass';
      return lineOfHeaders((name) => headers[name]);
    },
  };
}

/** A guard over stdio. It shares a store with nobody. */
async function openGuard(
  options: VerifierOptions,
): Promise<GateDoor & { revoke(target: Revoked): Promise<void>; close(): Promise<void> }> {
  const configuration = {
    ...readConfiguration({ LOG_LEVEL: 'silent', SERVER_IDENTITY: 'any' }),
    ...options,
  };
  const log = pino({ level: 'silent' }, QUIET);
  const opened = new Closers();
  const { gate, engine } = await openCore(configuration as never, log, opened);
  const guard = stdioGuard(gate.decider, null, 1_000_000);
  let asked = 0;
  return {
    name: 'guard over stdio',
    scope: 'guard over stdio',
    sees: ({ protocol, body }) =>
      protocol === 'mcp' && !body.includes('\n') && body.trim() !== '' && hasAnswer(body)
        ? { protocol, method: 'POST', headers: [], body: { text: body } }
        : undefined,
    async ask({ body }) {
      // No answer of a server comes, so that no id may come again.
      const own = body.replace(
        /^(\{"jsonrpc":"2\.0","id":)(?:"[^"]*"|-?[\d.]{1,9})(?=[,}])/,
        `$1"r-${asked++}"`,
      );
      const outcome = await guard.decide(messageOf({ bytes: Buffer.from(own), isTooLong: false }));
      if (outcome === null || typeof outcome === 'string') {
        const { error } = JSON.parse(outcome ?? '') as { error: { data: { status: number } } };
        return denied(error.data.status, { error });
      }
      const sent = JSON.parse(outcome.body.toString()) as { params?: { _meta?: Record<string, object> } };
      const context = sent.params?._meta?.['xyz.okeyamy.drs/context'];
      return line(context === undefined ? { decision: 'pass' } : allowed(context));
    },
    revoke: (target) => engine.revocation.revoke({ target, reason: null, exp: null }),
    close: () => opened.close(),
  };
}

/** `Authorization/Check`, as Envoy asks it: with one value for each header. */
function grpcDoor({ envoy }: GateService, world: World): GateDoor {
  const asked = (headers: GateRequest['headers']) => {
    const map: Record<string, string> = {};
    for (const [name, value] of headers) {
      const lower = name.toLowerCase();
      map[lower] = map[lower] === undefined ? value : `${map[lower]},${value}`;
    }
    return map;
  };
  return {
    name: 'Check',
    members: HEADERS,
    scope: '/v1/gate value',
    sees(request) {
      const headers = Object.entries(asked(request.headers));
      return { ...request, headers, body: bytesOf({ ...request, headers }), routes: world.routes ?? 'any' };
    },
    async ask({ protocol, method, path, headers, body }) {
      const http = { method, path, headers: asked(headers), raw_body: Buffer.from(body) };
      const attributes = { request: { http }, context_extensions: { drs_protocol: protocol } };
      const said = (await callOnce(
        envoy,
        'Check',
        { attributes },
        { deadline: Infinity },
      )) as unknown as CheckAnswer;
      if (said.denied_response !== undefined) {
        const { status, body: text } = said.denied_response;
        return denied(Number(STATUS[status.code]), JSON.parse(text));
      }
      const set = new Map(said.ok_response?.headers.map(({ header }) => [header.key, header.value]));
      return set.has('x-drs-agent') ? lineOfHeaders((name) => set.get(name)) : 'pass';
    },
  };
}

/** Whether a guard answers a message that it refuses: it does not answer notifications. */
export function hasAnswer(body: string): boolean {
  try {
    const message = JSON.parse(body) as Record<string, unknown> | null;
    return typeof message?.['method'] !== 'string' || Object.hasOwn(message, 'id');
  } catch {
    return true;
  }
}

interface CheckAnswer {
  readonly ok_response?: {
    readonly headers: readonly { readonly header: { readonly key: string; readonly value: string } }[];
  };
  readonly denied_response?: { readonly status: { readonly code: string }; readonly body: string };
}

/** Envoy's names of statuses. */
const STATUS = Object.fromEntries(
  Object.entries(STATUS_CODES).map(([status, name]) => [name?.replaceAll(/\W/g, '') ?? '', status]),
);

/** The line of an allowed call that its headers tell. */
function lineOfHeaders(get: (name: string) => unknown): string {
  // There is no header for a call without a tool.
  const context: Record<string, unknown> = { tool: null };
  for (const name of HEADERS) {
    const value = get(`x-drs-${name.replaceAll('_', '-')}`);
    if (typeof value === 'string') context[name] = plain(value);
  }
  const depth = Number(context['chain_depth']);
  return lineOf({ decision: 'allow', context: { ...context, chain_depth: depth } }, HEADERS);
}

const plain = (value: string) => {
  const base64 = /^=\?base64\?(.*)\?=$/.exec(value)?.[1];
  return base64 === undefined ? value : Buffer.from(base64, 'base64').toString();
};
