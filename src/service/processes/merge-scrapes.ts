/**
 * Merges the metrics of several processes: each metric once, with the series of all processes. A label must tell the
 * series apart.
 *
 * @param scrapes in the text format of Prometheus, each metric with its HELP first and its TYPE second
 */
export function mergeScrapes(scrapes: readonly string[]): string {
  const metrics = new Map<string, string>();
  for (const scrape of scrapes)
    for (const [, head = '', name = '', series = ''] of scrape.matchAll(METRIC))
      metrics.set(name, (metrics.get(name) ?? head) + series.trimEnd());
  return `${[...metrics.values()].join('\n\n')}\n`;
}

const METRIC = /^(# HELP (\S+).*\n# TYPE .*)((?:\n(?!# HELP ).*)*)/gm;
