import { performance } from 'node:perf_hooks';
import type { Exchange } from './exchange.js';

/** Reports requests to OpenTelemetry. */
export interface Tracing {
  /** Reports a request that is over as a span, a child of the caller's where the caller has sent `traceparent`. */
  record(exchange: Exchange, milliseconds: number): void;
}

/**
 * Reports requests where an OpenTelemetry SDK was registered before the service was started (`node --import`).
 *
 * @returns `null` where `@opentelemetry/api` is not installed or no SDK is registered: then no request pays for it
 */
export async function openTracing(): Promise<Tracing | null> {
  const api = await import('@opentelemetry/api').catch(() => null);
  if (api === null) return null;
  const { propagation, trace, ProxyTracerProvider, ROOT_CONTEXT, SpanKind, SpanStatusCode } = api;
  const provider = trace.getTracerProvider();
  // The API stands in for an SDK with a proxy, which leads nowhere until one is registered.
  if (provider instanceof ProxyTracerProvider && provider.getDelegateTracer('drs-verify') === undefined)
    return null;
  const tracer = provider.getTracer('drs-verify');
  return {
    record({ endpoint, status, startedAt, traceparent, code }, milliseconds) {
      const startTime = performance.timeOrigin + startedAt;
      const parent = traceparent === null ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, { traceparent });
      const attributes = {
        'http.route': endpoint,
        ...(status === 0 ? {} : { 'http.response.status_code': status }),
        ...(code === null ? {} : { 'drs.code': code }),
      };
      const span = tracer.startSpan(
        `drs ${endpoint}`,
        { kind: SpanKind.SERVER, startTime, attributes },
        parent,
      );
      if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(startTime + milliseconds);
    },
  };
}
