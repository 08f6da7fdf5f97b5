import { readFileSync } from 'node:fs';
import { parse, parseAllDocuments } from 'yaml';
import { CONTEXT_HEADERS } from '../../src/gate/context.js';
import type { WireAnswer } from './gate-wire.js';

/** What becomes of a caller's request. */
export type Treatment =
  /** It goes on to the tool server, with these headers. */
  | { readonly passes: true; readonly headers: ReadonlyMap<string, string> }
  /** The caller gets this. */
  | { readonly passes: false; readonly status: number; readonly body: string };

/** A recipe for a proxy that cannot be run here, and what the proxy does with it. */
export interface WireRecipe {
  /** Its file in test/gate/wire. */
  readonly name: string;
  /** The headers of the caller that the gate is sent; the proxy adds others. Names in lower case. */
  readonly sent: readonly string[];
  /** Whether a path is forwarded. */
  readonly forwards: (path: string) => boolean;
  /** The headers of the caller that go no further. Those of the bundle only after the verdict. */
  readonly removed: readonly string[];
  /** What the proxy itself says to the gate. */
  readonly added: readonly string[];
  readonly maxBodyBytes: number;
  /** As the proxy's source has it, with the lists of the recipe. */
  readonly treat: (answer: WireAnswer, callers: ReadonlyMap<string, string>) => Treatment;
}

/** Members of a parsed configuration that nothing describes. */
type Node = Readonly<Record<string, unknown>>;

const load = (file: string) =>
  readFileSync(new URL(`../../deploy/gateways/${file}`, import.meta.url), 'utf8');
const at = (node: unknown, ...path: (string | number)[]): unknown =>
  path.reduce<unknown>((from, name) => (from as Node | undefined)?.[name], node);
const names = (value: unknown): string[] => {
  const list = Array.isArray(value) ? value : Object.keys(value ?? {});
  return list.map((item: unknown) => String(at(item, 'exact') ?? at(item, 'prefix') ?? item).toLowerCase());
};
const denied = ({ status, body }: WireAnswer): Treatment => ({ passes: false, status, body });
/** Sets what the gate says of each header in the list, and takes the caller's off where it says nothing. */
const replaceAll = (
  { headers }: WireAnswer,
  callers: ReadonlyMap<string, string>,
  list: readonly string[],
): Treatment => {
  const result = new Map(callers);
  for (const name of list) {
    const value = headers.get(name);
    if (value === undefined) result.delete(name);
    else result.set(name, value);
  }
  return { passes: true, headers: result };
};

/** The headers that an empty value takes off. */
const emptied = (middlewares: unknown, middleware: string): string[] => {
  const headers = at(middlewares, middleware, 'headers', 'customRequestHeaders') as Node;
  return names(headers).filter((_, index) => Object.values(headers)[index] === '');
};

/** Envoy: exactly 200 allows; it sets, then removes what the answer names; a 5xx is its own status and no body. */
const envoyTreats =
  (set: readonly string[], statusOnError: number): WireRecipe['treat'] =>
  (answer, callers) => {
    const { status, headers } = answer;
    if (status >= 500) return { passes: false, status: statusOnError, body: '' };
    if (status !== 200) return denied(answer);
    const result = new Map(callers);
    for (const name of set) {
      const value = headers.get(name);
      if (value !== undefined) result.set(name, value);
    }
    for (const name of headers.get('x-envoy-auth-headers-to-remove')?.split(',') ?? [])
      result.delete(name.trim());
    return { passes: true, headers: result };
  };
const ENVOY_ADDS = [
  'host',
  'content-length',
  'authorization',
  'x-envoy-internal',
  'x-envoy-expected-rq-timeout-ms',
];

function envoy(): WireRecipe {
  const listener = at(parse(load('envoy/envoy.yaml')), 'static_resources', 'listeners', 0);
  const manager = at(listener, 'filter_chains', 0, 'filters', 0, 'typed_config');
  const filter = at(manager, 'http_filters', 0, 'typed_config');
  const set = names(
    at(filter, 'http_service', 'authorization_response', 'allowed_upstream_headers', 'patterns'),
  );
  expectPath(at(filter, 'http_service', 'path_prefix'));
  if (at(manager, 'use_remote_address') !== true)
    throw new Error('X-Forwarded-For would be what the caller says');
  return {
    name: 'envoy',
    sent: names(at(filter, 'allowed_headers', 'patterns')),
    forwards: matcherOf(
      at(manager, 'route_config', 'virtual_hosts', 0, 'routes', 0, 'match', 'safe_regex', 'regex'),
    ),
    removed: names(at(manager, 'route_config', 'virtual_hosts', 0, 'request_headers_to_remove')),
    added: ENVOY_ADDS,
    maxBodyBytes: Number(at(filter, 'with_request_body', 'max_request_bytes')),
    treat: envoyTreats(set, { ServiceUnavailable: 503 }[String(at(filter, 'status_on_error', 'code'))] ?? 0),
  };
}

function envoyGateway(): WireRecipe {
  const documents = parseAllDocuments(load('envoy-gateway/drs.yaml')).map(
    (document) => document.toJS() as unknown,
  );
  const of = (kind: string) =>
    at(
      documents.find((document) => at(document, 'kind') === kind),
      'spec',
    );
  const auth = at(of('SecurityPolicy'), 'extAuth');
  expectPath(at(auth, 'http', 'path'));
  return {
    name: 'envoy-gateway',
    sent: names(at(auth, 'headersToExtAuth')),
    forwards: matcherOf(
      (at(of('HTTPRoute'), 'rules', 0, 'matches') as Node[]).map((one) => at(one, 'path', 'value')),
    ),
    removed: names(at(of('HTTPRoute'), 'rules', 0, 'filters', 0, 'requestHeaderModifier', 'remove')),
    added: ENVOY_ADDS,
    maxBodyBytes: Number(at(auth, 'bodyToExtAuth', 'maxRequestBytes')),
    treat: envoyTreats(names(at(auth, 'http', 'headersToBackend')), Number(at(auth, 'statusOnError'))),
  };
}

function traefik(): WireRecipe {
  const middlewares = at(parse(load('traefik/drs.yaml')), 'http', 'middlewares');
  const auth = at(middlewares, 'drs', 'forwardAuth');
  const router = at(parse(load('traefik/drs.yaml')), 'http', 'routers', 'tools');
  const rule = String(at(router, 'rule'));
  if (String(at(router, 'middlewares')) !== 'one-method,drs,no-bundle')
    throw new Error('the bundle would be taken off before the verdict, or not at all');
  const list = names(at(auth, 'authResponseHeaders'));
  expectPath(at(auth, 'address'));
  return {
    name: 'traefik',
    sent: names(at(auth, 'authRequestHeaders')),
    forwards: matcherOf(/^PathRegexp\(`([^`]*)`\) && \(/.exec(rule)?.[1]),
    // trustForwardHeader: false, and no trusted address.
    removed: [
      ...emptied(middlewares, 'one-method'),
      ...emptied(middlewares, 'no-bundle'),
      ...['x-forwarded-method', 'x-forwarded-uri'],
    ],
    added: [
      ...['host', 'user-agent', 'content-length', 'transfer-encoding', 'accept-encoding'],
      ...['for', 'host', 'method', 'port', 'proto', 'uri'].map((name) => `x-forwarded-${name}`),
    ],
    maxBodyBytes: Number(at(auth, 'maxBodySize')),
    treat: (answer, callers) =>
      answer.status < 200 || answer.status >= 300 ? denied(answer) : replaceAll(answer, callers, list),
  };
}

function apisix(): WireRecipe {
  const route = at(parse(load('apisix/apisix.yaml')), 'routes', 0);
  const plugins = at(route, 'plugins');
  const post = String(at(plugins, 'serverless-post-function', 'functions', 0));
  const auth = at(plugins, 'forward-auth');
  const list = names(at(auth, 'upstream_headers'));
  expectPath(at(auth, 'uri'));
  return {
    name: 'apisix',
    sent: [...names(at(auth, 'request_headers')), 'content-encoding'],
    forwards: matcherOf(at(route, 'uris')),
    removed: [
      ...names(at(plugins, 'proxy-rewrite', 'headers', 'remove')),
      // This plugin runs after forward-auth.
      ...[...post.matchAll(/set_header\(ctx, "([^"]+)", nil\)/g)].map(([, name = '']) => name.toLowerCase()),
    ],
    added: [
      ...['host', 'user-agent', 'content-length'],
      ...['for', 'host', 'method', 'proto', 'uri'].map((name) => `x-forwarded-${name}`),
    ],
    maxBodyBytes: Number(at(auth, 'max_req_body_size')),
    treat: (answer, callers) => (answer.status >= 300 ? denied(answer) : replaceAll(answer, callers, list)),
  };
}

function agentgateway(): WireRecipe {
  const route = at(parse(load('agentgateway/config.yaml')), 'binds', 0, 'listeners', 0, 'routes', 0);
  const auth = at(route, 'policies', 'extAuthz');
  const metadata = at(auth, 'protocol', 'http', 'metadata') as Record<string, string>;
  const set = at(route, 'policies', 'transformations', 'request', 'set') as Record<string, string>;
  // Which header of the gate's answer each header becomes.
  const ofGate = Object.entries(set).filter(([name]) => name !== 'x-forwarded-for');
  const list = ofGate.map(([name, expression]) => {
    const source = metadata[expression.replace(/^extauthz\./, '')];
    if (source !== `default(response.headers["${name}"], null)`)
      throw new Error(`${name} is set from ${source}`);
    return name;
  });
  expectPath((at(auth, 'protocol', 'http', 'path') as string).replaceAll('"', ''));
  return {
    name: 'agentgateway',
    sent: names(at(auth, 'includeRequestHeaders')),
    forwards: matcherOf([at(route, 'matches', 0, 'path', 'exact')]),
    removed: names(at(route, 'policies', 'requestHeaderModifier', 'remove')),
    added: [
      ...['host', 'content-length', 'x-envoy-auth-partial-body'],
      ...names(at(auth, 'protocol', 'http', 'addRequestHeaders')),
    ],
    maxBodyBytes: Number(at(auth, 'includeRequestBody', 'maxRequestBytes')),
    treat: (answer, callers) =>
      answer.status < 200 || answer.status >= 300 ? denied(answer) : replaceAll(answer, callers, list),
  };
}

/** @param paths a regular expression for whole paths, or all of them */
function matcherOf(paths: unknown): (path: string) => boolean {
  return (path) =>
    Array.isArray(paths) ? paths.includes(path) : new RegExp(`^(?:${String(paths)})$`).test(path);
}

function expectPath(path: unknown): void {
  if (!String(path).endsWith('/gate/mcp'))
    throw new Error(`expected the path /gate/mcp, found ${String(path)}`);
}

export const WIRE_RECIPES: readonly WireRecipe[] = [
  envoy(),
  envoyGateway(),
  traefik(),
  apisix(),
  agentgateway(),
];

/** The context headers, in lower case. */
export const CONTEXT = CONTEXT_HEADERS.map((name) => name.toLowerCase());
