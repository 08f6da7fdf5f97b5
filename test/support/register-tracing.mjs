// Preloaded into a process by a test: registers OpenTelemetry's own SDK, which writes each span as a line on standard output, or on the error output
// (`SPANS=stderr`) where the other is for messages.
import { propagation } from '@opentelemetry/api';
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';

const output = process.env['SPANS'] === 'stderr' ? process.stderr : process.stdout;

const exporter = {
  /** @param {import('@opentelemetry/sdk-trace-node').ReadableSpan[]} spans @param {(result: { code: 0 }) => void} done */
  export(spans, done) {
    for (const span of spans) {
      const { name, attributes, parentSpanContext, status } = span;
      const { traceId, traceState } = span.spanContext();
      const from = { traceId, parent: parentSpanContext?.spanId, traceState: traceState?.serialize() };
      output.write(`${JSON.stringify({ msg: 'span', name, attributes, ...from, status })}\n`);
    }
    done({ code: 0 });
  },
  shutdown: () => Promise.resolve(),
};

/** As processors of vendors do. */
class Baggage extends SimpleSpanProcessor {
  /** @override @param {import('@opentelemetry/sdk-trace-node').Span} span @param {import('@opentelemetry/api').Context} parent */
  onStart(span, parent) {
    for (const [name, { value }] of propagation.getBaggage(parent)?.getAllEntries() ?? [])
      span.setAttribute(name, value);
  }
}

new NodeTracerProvider({ spanProcessors: [new Baggage(exporter)] }).register();
