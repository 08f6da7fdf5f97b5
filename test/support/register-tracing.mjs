// Preloaded into the service by a test: registers OpenTelemetry's own SDK, which writes each span as a line of the log.
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';

const exporter = {
  /** @param {import('@opentelemetry/sdk-trace-node').ReadableSpan[]} spans @param {(result: { code: 0 }) => void} done */
  export(spans, done) {
    for (const span of spans) {
      const { name, attributes, parentSpanContext, status } = span;
      const { traceId } = span.spanContext();
      const line = { msg: 'span', name, attributes, traceId, parent: parentSpanContext?.spanId, status };
      process.stdout.write(`${JSON.stringify(line)}\n`);
    }
    done({ code: 0 });
  },
  shutdown: () => Promise.resolve(),
};

new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
