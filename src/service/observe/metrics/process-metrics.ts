/** The place of one process among several. */
interface Place {
  readonly name: string;
  /** The process that serves; `null` if it has died. */
  readonly current: object | null;
  readonly deaths: number;
}

/**
 * The metrics of several processes in one text: each metric once, with the series of all processes.
 *
 * prom-client's `AggregatorRegistry` would keep the label `process`, too. But it leaves out `process_start_time_seconds`,
 * and gives no metrics at all if one process does not answer.
 *
 * @param places what the supervisor itself shows
 * @param scrapes the metrics of each in the text format of Prometheus, HELP first and TYPE second, with the label `process`
 */
export function mergeScrapes(places: readonly Place[], scrapes: readonly string[]): string {
  const own = (name: string, type: string, help: string, valueOf: (place: Place) => number) =>
    `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n` +
    places.map((place) => `${name}{process="${place.name}"} ${valueOf(place)}\n`).join('');
  const up = own('drs_process_up', 'gauge', '1 if the process serves', ({ current }) => (current ? 1 : 0));
  const help = 'Processes that ended without having been told to';
  const deaths = own('drs_process_deaths_total', 'counter', help, (place) => place.deaths);
  const metrics = new Map<string, string>();
  for (const scrape of [up, deaths, ...scrapes])
    for (const [, head = '', name = '', series = ''] of scrape.matchAll(METRIC))
      metrics.set(name, (metrics.get(name) ?? head) + series.trimEnd());
  return `${[...metrics.values()].join('\n\n')}\n`;
}

const METRIC = /^(# HELP (\S+)[^\n]*\n# TYPE [^\n]*)((?:\n(?!# HELP )[^\n]*)*)/gm;
