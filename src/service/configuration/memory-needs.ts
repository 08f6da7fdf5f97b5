import type { Configuration } from './configuration.js';
import { variableOf } from './environment.js';

const MIB = 1024 * 1024;
/** The heap of a process besides what is listed here. */
const BASE_BYTES = 64 * MIB;
const BYTES_PER_REPLAY_ENTRY = 300;

type Needs = Pick<
  Configuration,
  'receiptCacheBytes' | 'maxBodyMemory' | 'replayMaxEntries' | 'replayProtection' | 'gateReplay'
>;

/**
 * Warns if the limits of the configuration together allow more memory than V8's heap may have. The process would then be
 * killed while every single limit is kept.
 *
 * @param heapBytes the limit of the heap
 */
export function warningsAboutMemory(needs: Needs, heapBytes: number): string[] {
  const records = [needs.replayProtection, needs.gateReplay].filter((where) => where === 'memory').length;
  const parts = {
    receiptCacheBytes: needs.receiptCacheBytes,
    maxBodyMemory: needs.maxBodyMemory,
    replayMaxEntries: records * BYTES_PER_REPLAY_ENTRY * needs.replayMaxEntries,
  };
  const bytes = Object.values(parts).reduce((sum, part) => sum + part, BASE_BYTES);
  if (bytes <= heapBytes) return [];
  const list = Object.entries(parts)
    .filter(([, part]) => part > 0)
    .map(([option, part]) => `${variableOf(option)} ${mib(part)}`);
  return [
    `the limits allow ${mib(bytes)} of memory (${list.join(', ')}, and ${mib(BASE_BYTES)} for the rest), and the heap may ` +
      `have ${mib(heapBytes)}: lower them, or raise the limit (NODE_OPTIONS=--max-old-space-size, or the memory of the container)`,
  ];
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}
