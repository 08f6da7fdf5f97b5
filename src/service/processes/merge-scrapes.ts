/**
 * Merges the metrics of several processes: each metric once, with the series of all processes. A label must tell the
 * series apart.
 *
 * @param scrapes in the text format of Prometheus, as prom-client writes it
 */
export function mergeScrapes(scrapes: readonly string[]): string {
  const families = new Map<string, string[]>();
  for (const scrape of scrapes) {
    let family: string[] = [];
    let isKnown = false;
    for (const line of scrape.split('\n')) {
      if (line === '') continue;
      const [, name] = /^# HELP (\S+)/.exec(line) ?? [];
      if (name !== undefined) {
        isKnown = families.has(name);
        family = families.get(name) ?? [];
        families.set(name, family);
      }
      if (!line.startsWith('#') || !isKnown) family.push(line);
    }
  }
  return `${[...families.values()].map((lines) => lines.join('\n')).join('\n\n')}\n`;
}
