import { readFileSync } from 'node:fs';

/**
 * Connections that the kernel dropped since it started because the queue of those that nobody has accepted was full.
 * Their clients try again after a second, which no other metric of a server shows. The kernel counts them for the whole
 * network namespace (a container's own). 0 where the system does not tell.
 */
export function acceptOverflows(): number {
  try {
    return overflowsIn(readFileSync('/proc/net/netstat', 'latin1'));
  } catch {
    return 0;
  }
}

/** Reads `ListenOverflows` from the text of `/proc/net/netstat`: a line of names, then a line of numbers. */
export function overflowsIn(text: string): number {
  const [names, values] = text
    .split('\n')
    .filter((line) => line.startsWith('TcpExt:'))
    .map((line) => line.split(' '));
  return Number(values?.[names?.indexOf('ListenOverflows') ?? -1] ?? 0);
}
