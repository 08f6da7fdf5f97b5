import { readFileSync } from 'node:fs';

/**
 * Number of connections that the kernel has dropped since it started, because the accept queue was full. The clients
 * try again after a second; no other metric of a server shows this delay. The kernel counts for the whole network
 * namespace (a container has its own). 0 if the system has no such counter.
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
