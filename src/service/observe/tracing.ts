import { performance } from 'node:perf_hooks';
import type { Answered } from '../http/incoming.js';

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
    /** Reports a finished request as a span. If the caller sent `traceparent`, the span is a child of the caller's. */
    record({ endpoint, status, startedAt, traceparent, code }: Answered, milliseconds: number): void {
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
