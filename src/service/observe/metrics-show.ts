import { Counter, Gauge, type Registry } from 'prom-client';

type Read = (set: (value: number, ...labels: string[]) => void) => void;

/** Adds a counter whose values are kept elsewhere and read for each scrape. */
export function showCounter(
  registry: Registry,
  name: string,
  help: string,
  labelNames: string[],
  read: Read,
): void {
  new Counter({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      read((value, ...labels) => this.labels(...labels).inc(value));
    },
  });
}

/** Adds a gauge without labels whose value is read for each scrape. */
export function showGauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}

/** Adds a gauge with labels whose values are read for each scrape. */
export function showGauges(
  registry: Registry,
  name: string,
  help: string,
  labelNames: string[],
  read: Read,
): void {
  new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      read((value, ...labels) => this.labels(...labels).set(value));
    },
  });
}
