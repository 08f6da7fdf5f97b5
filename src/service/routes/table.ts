import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setImmediate } from 'node:timers/promises';
import type { Protocol } from '../../gate/codes.js';
import { GATE_PROTOCOLS } from '../../gate/open.js';
import { answerBatch, maxBatchBytesOf } from '../http/batch.js';
import { errorAnswer, type Answer, type Exchange } from '../http/exchange.js';
import type { BodyHandler } from '../http/body-handler.js';
import type { Route, Table } from '../http/serve.js';
import { limitOf, type RateLimit } from '../load/rate-limit.js';
import type { Endpoint } from '../observe/metrics/metrics.js';
import { adminRoutes } from './admin-routes.js';
import { approveRows } from './approve-route.js';
import type { RouteContext } from '../core.js';
import { gateRequestHandler } from './gate-api-route.js';
import { gateHandler, proxyQuery } from './gate-route.js';
import { refundHandler } from './refund-route.js';
import { verdictHandler } from './verify-route.js';

/**
 * What answers the requests to a service.
 *
 * @returns `internal`: those to `METRICS_ADDR`; `gateLimit`: the gate's rate limit, which gRPC shares; `null` if there is none
 */
export function routeTables(context: RouteContext) {
  const { configuration, gate: opened } = context;
  const { metricsAddr, adminOnMetricsAddr } = configuration;
  const limit = () => limitOf(configuration);
  const [verifyLimit, gateLimit, adminLimit] = [limit(), limit(), limit()];
  const { revoke, list, usage } = adminRoutes(context);

  const post = (endpoint: Endpoint, rateLimit: RateLimit | null, serve: Route['serve']): Route => ({
    endpoint,
    methods: ['POST'],
    rateLimit,
    serve,
  });
  /** Bodies, or batches of them. */
  const judged = (endpoint: Endpoint, rateLimit: RateLimit | null, handler: BodyHandler): Route => ({
    ...post(endpoint, rateLimit, handler),
    batches: {
      maxBytes: maxBatchBytesOf(configuration),
      answer: (exchange, ticket) => answerBatch(exchange, ticket, handler, { ...context, limit: rateLimit }),
    },
  });
  const read = (
    endpoint: Endpoint,
    serve: Route['serve'],
    rateLimit: RateLimit | null = null,
    takesQuery = true,
  ): Route => ({ endpoint, methods: ['GET', 'HEAD'], rateLimit, serve, takesQuery });
  const gate = (protocol: Protocol): Route => ({
    endpoint: 'gate',
    methods: [],
    rateLimit: gateLimit,
    takesQuery: true,
    takesAnyOrigin: true,
    serve: gateHandler(context, protocol, proxyQuery),
  });

  const verdicts: Rows = [
    ['/verify', judged('verify', verifyLimit, verdictHandler(context))],
    ['/v1/gate', judged('gate', gateLimit, gateRequestHandler(context))],
    ['/v1/refund', post('gate', gateLimit, refundHandler(context))],
    ['/.well-known/jwks.json', read('jwks', () => answerKeys(opened))],
    ...GATE_PROTOCOLS.map((protocol) => [`/gate/${protocol}`, gate(protocol)] as const),
  ];
  const admin: Rows = [
    ['/admin/revoke', post('revoke', adminLimit, revoke)],
    ['/admin/revocations', read('revoke', list, adminLimit, false)],
    ['/admin/usage', read('usage', usage, adminLimit)],
  ];
  const health: Rows = [
    ['/healthz', read('healthz', () => answerHealth(context))],
    ['/readyz', read('readyz', () => answerReadiness(context))],
  ];
  const metrics: Rows = [['/metrics', read('metrics', () => answerScrape(context))], ...approveRows(context)];
  return {
    service: tableOf(limit(), [
      ...verdicts,
      ...(adminOnMetricsAddr ? [] : admin),
      ...health,
      ...(metricsAddr === undefined ? metrics : []),
      ['/openapi.json', read('openapi', answerDocument)],
    ]),
    internal: tableOf(limit(), [...(adminOnMetricsAddr ? admin : []), ...health, ...metrics]),
    gateLimit,
  };
}

/** Answers with bytes that all answers share, however many clients do not take theirs. While a body comes, it would be a copy. */
function answerDocument({ hasBody }: Exchange): Answer {
  return hasBody
    ? errorAnswer(400, 'the request has a body, expected none')
    : { status: 200, body: OPENAPI_JSON };
}

type Rows = readonly (readonly [path: string, route: Route])[];

function tableOf(rateLimit: RateLimit | null, rows: Rows): Table {
  const error = `unknown path; there are ${rows.map(([path]) => path).join(', ')}`;
  return {
    routes: new Map(rows),
    unknown: {
      endpoint: 'other',
      methods: [],
      rateLimit,
      takesQuery: true,
      serve: () => errorAnswer(404, error),
    },
  };
}

function answerKeys({ signer }: RouteContext['gate']): Answer {
  if (signer === null) return errorAnswer(404, 'contexts are not signed: set GATE_SIGNING_KEY');
  return { status: 200, body: JSON.stringify({ keys: [signer.jwk] }) };
}

function answerHealth({ gatekeeper }: RouteContext): Answer {
  if (gatekeeper.isDraining) return { status: 503, body: '{"status":"shutting_down"}', closes: true };
  return { status: 200, body: '{"status":"ok"}' };
}

function answerReadiness({ readiness, engine, configuration: { gateMode } }: RouteContext): Answer {
  const { reasons, reason } = readiness();
  const mode = gateMode === 'observe' ? { gate_mode: gateMode } : {};
  const without = reasons.length === 0 ? {} : { reasons };
  const failing = [...engine.revocation.ofRoots.failing.keys()];
  const lists = failing.length === 0 ? {} : { failing_lists: failing };
  if (reason === null)
    return { status: 200, body: JSON.stringify({ status: 'ready', ...mode, ...without, ...lists }) };
  return { status: 503, body: JSON.stringify({ status: 'not_ready', reason, reasons }) };
}

async function answerScrape({ metrics: { registry } }: RouteContext): Promise<Answer> {
  // Deferred: one packet may hold thousands of pipelined requests, which would all be answered before anything else.
  await setImmediate();
  const headers = { 'Content-Type': registry.contentType };
  return { status: 200, body: await registry.metrics(), headers };
}

/** `docs/openapi.yaml` as JSON text. The build converts it. */
const OPENAPI_JSON = readFileSync(createRequire(import.meta.url).resolve('#openapi'));
