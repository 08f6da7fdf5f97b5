import type { Configuration } from '../configuration/configuration.js';
import { BatchIntake } from '../http/batch-intake.js';
import { BodyIntake } from '../http/body-intake.js';
import type { AnswerOptions, Endpoint, Exchange } from '../http/exchange.js';
import type { HttpRequest } from '../http/front-end.js';
import type { RequestHead } from '../http/request-head.js';
import { RateLimit } from '../load/rate-limit.js';
import type { RouteContext } from './context.js';
import { AdminAccess } from './admin-access.js';
import { GateApiRoute } from './gate-api-route.js';
import { GateRoute } from './gate-route.js';
import { INSPECTOR_HEADERS, inspectorPage } from './inspector.js';
import { RefundRoute } from './refund-route.js';
import { RevokeRoute } from './revoke-route.js';
import { UsageRoute } from './usage-route.js';
import { VerifyRoute } from './verify-route.js';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** Answers a request. */
type Serve = (exchange: Exchange, head: RequestHead, req: HttpRequest) => void;

/** What answers the requests to a path. */
export interface Route {
  readonly endpoint: Endpoint;
  /** Empty if every method is allowed. */
  readonly methods: readonly string[];
  /** `null` if there is no limit. Each class of endpoints has its own limit, so that one cannot use up another's. */
  readonly rateLimit: RateLimit | null;
  readonly serve: Serve;
  /** Whether the headers belong to the request that a proxy asks about: the gate reads them, and the origin is its. */
  readonly isProxied?: true;
  /** Whether it is a page to which other pages may link: it says the same to everybody, and does nothing. */
  readonly isPage?: true;
  /** Whether a query may come: it is read, or the answer is the same without it. Else nobody may think that it counts. */
  readonly takesQuery?: boolean;
}

/** The routes of a listener by path, and the route for all other paths. */
export interface Table {
  readonly routes: ReadonlyMap<string, Route>;
  readonly unknown: Route;
}

/** What answers the requests to a service. */
export interface Tables {
  readonly service: Table;
  /** Of `METRICS_ADDR`. */
  readonly internal: Table;
  /** The gate's rate limit, which its other transports share; `null` if there is none. */
  readonly gateLimit: RateLimit | null;
}

/** A limit as configured; `null` if there is none. */
export function limitOf({
  rateLimitPerIp,
  rateLimitGlobal,
}: Pick<Configuration, 'rateLimitPerIp' | 'rateLimitGlobal'>): RateLimit | null {
  const rateLimit = new RateLimit(rateLimitPerIp, rateLimitGlobal);
  return rateLimit.isOn ? rateLimit : null;
}

/** The routes of the service, and those of `METRICS_ADDR`. */
export function routeTables(context: RouteContext): Tables {
  const { configuration, gateSigner } = context;
  const jwks = gateSigner === null ? null : JSON.stringify({ keys: [gateSigner.jwk] });
  const { metricsAddr, adminOnMetricsAddr, inspector } = configuration;
  const limit = () => limitOf(configuration);
  const [verifyLimit, gateLimit, adminLimit] = [limit(), limit(), limit()];
  const intake = new BodyIntake(context);
  const batches = new BatchIntake(context, intake);
  const access = new AdminAccess(context);
  const verify = new VerifyRoute(context, batches, verifyLimit);
  const [revoke, usage] = [new RevokeRoute(context, access), new UsageRoute(context, access)];
  const refund = new RefundRoute(context, intake);
  const [api, proxied] = [new GateApiRoute(context, batches, gateLimit), new GateRoute(context, intake)];

  const post = (endpoint: Endpoint, rateLimit: RateLimit | null, serve: Serve): Route => ({
    ...{ endpoint, methods: ['POST'], rateLimit, serve },
  });
  const read = (endpoint: Endpoint, serve: Serve, rateLimit: RateLimit | null = null): Route => ({
    ...{ endpoint, methods: ['GET', 'HEAD'], rateLimit, serve, takesQuery: true },
  });
  const gate = (serve: Serve): Route => ({
    ...{ endpoint: 'gate', methods: [], rateLimit: gateLimit, isProxied: true, serve, takesQuery: true },
  });

  const verdicts: Rows = [
    ['/verify', post('verify', verifyLimit, verify.serve)],
    ['/v1/gate', post('gate', gateLimit, api.serve)],
    ['/v1/refund', post('gate', gateLimit, refund.serve)],
    ['/.well-known/jwks.json', read('jwks', (exchange) => answerKeys(exchange, jwks))],
    ['/gate/http', gate(proxied.serve('http'))],
    ['/gate/mcp', gate(proxied.serve('mcp'))],
    ['/gate/a2a', gate(proxied.serve('a2a'))],
  ];
  const admin: Rows = [
    ['/admin/revoke', post('revoke', adminLimit, revoke.serve)],
    ['/admin/revocations', { ...read('revoke', revoke.list, adminLimit), takesQuery: false }],
    ['/admin/usage', read('usage', usage.serve, adminLimit)],
  ];
  const health: Rows = [
    ['/healthz', read('healthz', (exchange) => answerHealth(exchange, context))],
    ['/readyz', read('readyz', (exchange) => answerReadiness(exchange, context))],
  ];
  const metrics: Rows = [['/metrics', read('metrics', (exchange) => answerScrape(exchange, context))]];
  const description: Rows = [['/openapi.json', read('openapi', serveDocument(OPENAPI_JSON))]];
  return {
    service: tableOf(limit(), [
      ...verdicts,
      ...(adminOnMetricsAddr ? [] : admin),
      ...health,
      ...(metricsAddr === undefined ? metrics : []),
      ...description,
      ...(inspector ? inspectorRows(read) : []),
    ]),
    internal: tableOf(limit(), [...(adminOnMetricsAddr ? admin : []), ...health, ...metrics]),
    gateLimit,
  };
}

function inspectorRows(read: (endpoint: Endpoint, serve: Serve) => Route): Rows {
  const serve = serveDocument(Buffer.from(inspectorPage()), INSPECTOR_HEADERS);
  return [['/inspect', { ...read('inspect', serve), isPage: true }]];
}

/**
 * Answers with bytes that all answers share, however many clients do not take theirs. While a body comes, an answer would be a
 * copy.
 */
function serveDocument(bytes: Buffer, headers?: AnswerOptions['headers']): Serve {
  return (exchange, { hasBody }) => {
    if (hasBody) exchange.refuse(400, 'the request has a body, expected none');
    else exchange.answer(200, bytes, headers === undefined ? {} : { headers });
  };
}

type Rows = readonly (readonly [path: string, route: Route])[];

function tableOf(rateLimit: RateLimit | null, rows: Rows): Table {
  const paths = rows.map(([path]) => path);
  const gated = paths.filter((path) => path.startsWith('/gate/'));
  const proxies = gated.length > 0 ? ` (proxies ask ${gated.join(', ')})` : '';
  const error = `unknown path${proxies}; there are ${paths.filter((path) => !gated.includes(path)).join(', ')}`;
  return {
    routes: new Map(rows),
    unknown: {
      ...{ endpoint: 'other', methods: [], rateLimit, takesQuery: true },
      serve: (exchange) => exchange.refuse(404, error),
    },
  };
}

function answerKeys(exchange: Exchange, jwks: string | null): void {
  if (jwks !== null) exchange.answer(200, jwks);
  else exchange.refuse(404, 'contexts are not signed: set GATE_SIGNING_KEY');
}

function answerHealth(exchange: Exchange, { admission }: RouteContext): void {
  if (admission.isDraining) exchange.answer(503, '{"status":"shutting_down"}', { closes: true });
  else exchange.answer(200, '{"status":"ok"}');
}

function answerReadiness(exchange: Exchange, { readiness }: RouteContext): void {
  const reasons = readiness.reasons();
  const [reason] = reasons;
  if (reason === undefined) exchange.answer(200, '{"status":"ready"}');
  else exchange.answer(503, JSON.stringify({ status: 'not_ready', reason, reasons }));
}

function answerScrape(exchange: Exchange, { metrics, scrape, log }: RouteContext): void {
  exchange.ignoreBody();
  // Deferred: one packet may hold thousands of pipelined requests, which would all be answered before anything else.
  setImmediate(() => {
    scrape().then(
      (text) => exchange.answer(200, text, { headers: { 'Content-Type': metrics.registry.contentType } }),
      (error: unknown) => {
        log.error({ err: error }, 'a request failed inside the service');
        exchange.refuse(500, 'internal');
      },
    );
  });
}

/** `docs/openapi.yaml` as JSON text. The build converts it. */
const OPENAPI_JSON = readFileSync(createRequire(import.meta.url).resolve('#openapi'));
