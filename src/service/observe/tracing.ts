import { performance } from 'node:perf_hooks';
import { isGated, PASSING, TOOLS_CALL } from '../../gate/mcp-methods.js';
import { isJsonObject } from '../../protocol/json.js';
import type { TracedMessage } from '../http/logged-request.js';
import type { Answered } from '../http/exchange.js';
import { printable } from './logs/verdict-logs.js';

/** A request that is answered. `status` is `null` if it did not come over HTTP. */
export interface Traced extends Omit<Answered, 'status' | 'knownRequestId'> {
  readonly status: number | null;
}

/** Reports requests to OpenTelemetry. */
export type Tracing = NonNullable<Awaited<ReturnType<typeof openTracing>>>;

/**
 * Opens tracing if an OpenTelemetry SDK was registered before the service started (`node --import`).
 *
 * @returns `null` if `@opentelemetry/api` is not installed or no SDK is registered; then requests bear no cost
 */
export async function openTracing() {
  const api = await import('@opentelemetry/api').catch(() => null);
  if (api === null) return null;
  const { propagation, trace, ProxyTracerProvider, ROOT_CONTEXT, SpanKind, SpanStatusCode } = api;
  const provider = trace.getTracerProvider();
  // Without an SDK, the API returns a proxy provider that has no delegate.
  if (provider instanceof ProxyTracerProvider && provider.getDelegateTracer('drs-verify') === undefined)
    return null;
  const tracer = provider.getTracer('drs-verify');
  return {
    /** Reports a finished request as a span, the child of the caller's if the request names one. */
    record({ endpoint, status, startedAt, parent, code, message }: Traced, milliseconds: number): void {
      const startTime = performance.timeOrigin + startedAt;
      const attributes = {
        ...(status === null ? {} : { 'http.route': endpoint }),
        ...(status === null || status === 0 ? {} : { 'http.response.status_code': status }),
        ...(code === null ? {} : { 'error.type': code }),
        ...(message === undefined ? {} : attributesOf(message)),
      };
      const span = tracer.startSpan(
        (message && nameOf(message, code === null)) ?? `drs ${endpoint}`,
        { kind: SpanKind.SERVER, startTime, attributes },
        parent === null ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, parent),
      );
      const isRefused = message !== undefined && code !== null;
      if (isRefused || (status ?? 0) >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(startTime + milliseconds);
    },
  };
}

/** The attributes of OpenTelemetry's conventions for MCP. Callers choose these texts, so they are cut. */
function attributesOf({ method, params, id, session }: TracedMessage) {
  const tool = method === TOOLS_CALL && isJsonObject(params) ? params['name'] : null;
  const texts = {
    'mcp.method.name': method,
    'gen_ai.tool.name': tool,
    'mcp.session.id': session,
    'jsonrpc.request.id': typeof id === 'number' ? String(id) : id,
  };
  const printed = Object.entries(texts).map(([name, text]) => [name, printable(text)] as const);
  return Object.fromEntries(printed.filter(([, text]) => text !== null)) as Readonly<Record<string, string>>;
}

/** The name of a span, of which there must be few: a method that the gate knows, and a tool that may be called. */
function nameOf(message: TracedMessage, isAllowed: boolean): string | undefined {
  const { method } = message;
  if (method === undefined || !(isGated(method) || PASSING.has(method))) return undefined;
  const tool = isAllowed ? attributesOf(message)['gen_ai.tool.name'] : undefined;
  return tool === undefined ? method : `${method} ${tool}`;
}
