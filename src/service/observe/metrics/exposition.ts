import type { Metric, Registry } from 'prom-client';
import { Distribution } from './metrics.js';

/** The values of a metric: one, or by each value of the first label those for the other labels. */
export type Values =
  | number
  | Distribution
  | Iterable<readonly [label: string | number, values: Values]>
  | { readonly [label: string]: Values };

/** One row of a table of metrics. */
export type Row<Sources> = readonly [
  name: string,
  type: 'counter' | 'gauge' | 'histogram',
  help: string,
  labels: readonly string[],
  /** Reads the values for each scrape; `undefined` if the part that the metric is about is off. */
  read: (sources: Sources) => Values | undefined,
];

interface Sample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/**
 * Adds the metrics of a table to a registry, except those of parts that are off.
 *
 * @param sources where the values come from
 * @example show(registry, [['queue_length', 'gauge', 'Waiting', [], (queue) => queue.length]], queue);
 */
export function show<Sources>(registry: Registry, table: readonly Row<Sources>[], sources: Sources): void {
  for (const [name, type, help, labels, read] of table) {
    if (read(sources) === undefined) continue;
    const get = () => {
      const values = [...samplesOf(name, read(sources) ?? [], labels)];
      return Promise.resolve({ name, help, type, aggregator: 'sum', values });
    };
    // A registry only calls `get`, but its type requires one of prom-client's own classes.
    registry.registerMetric({ name, get } as unknown as Metric);
  }
}

function* samplesOf(
  name: string,
  values: Values,
  labelNames: readonly string[],
  labels: Sample['labels'] = {},
): Generator<Sample> {
  if (typeof values === 'number') yield { labels, value: values };
  else if (values instanceof Distribution) yield* bucketsOf(name, values, labels);
  else {
    const [label = '', ...others] = labelNames;
    for (const [is, inner] of Symbol.iterator in values ? values : Object.entries(values))
      yield* samplesOf(name, inner, others, { ...labels, [label]: is });
  }
}

/** A distribution with labels is omitted until it has an observation. */
function* bucketsOf(
  name: string,
  { buckets, counts, sum }: Distribution,
  labels: Sample['labels'],
): Generator<Sample> {
  const total = counts.reduce((all, count) => all + count, 0);
  if (total === 0 && Object.keys(labels).length > 0) return;
  let below = 0;
  for (const [bucket, count] of counts.entries()) {
    below += count;
    yield {
      metricName: `${name}_bucket`,
      labels: { le: buckets[bucket] ?? '+Inf', ...labels },
      value: below,
    };
  }
  yield { metricName: `${name}_sum`, labels, value: sum };
  yield { metricName: `${name}_count`, labels, value: total };
}
