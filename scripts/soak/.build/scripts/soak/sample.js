import { readdirSync, readFileSync } from 'node:fs';
export const FIGURES = ['rss', 'descriptors', 'handles', 'p99'];
/** Resident MB and open descriptors of a process, out of /proc. */
export function processFigures(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  const rss = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? NaN) / 1000;
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? [];
  // Clock ticks, of which Linux has 100 in a second.
  const cpuSecs = (Number(stat[11]) + Number(stat[12])) / 100;
  return { rss, descriptors: readdirSync(`/proc/${pid}/fd`).length, cpuSecs };
}
/** The sum of a metric over its labels. */
export function sumOf(metrics, name) {
  const values = metrics
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
  return values.reduce((sum, value) => sum + value, 0);
}
