import { OptionsError } from '../../verifier/options.js';
import type { Resources } from '../../verifier/resources.js';
import { findPort } from '../http/listen/find-port.js';
import { addressOf, type Configuration } from './configuration.js';

const MIB = 1024 * 1024;
/** The memory of a process besides its cache and its bodies. */
const BASE_BYTES = 130 * MIB;
const MIN_SHARE_BYTES = BASE_BYTES + 32 * MIB;

/** Limits that are divided among the processes, if they are set. */
const LIMITS = ['RATE_LIMIT_PER_IP', 'RATE_LIMIT_GLOBAL'] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The variables to change in the environment of each process: its share of the cores (as worker threads), of the memory
 * for its cache and bodies, and of the rate limits, so that all processes together keep the limits. Threads and memory
 * that are set in the environment are not divided: each process gets them.
 *
 * @throws OptionsError if there is not enough memory
 */
export function shareOut(
  env: Environment,
  processes: number,
  { cores, memoryBytes }: Resources,
): Record<string, string> {
  const memory = Math.floor(memoryBytes / processes);
  if (memory < MIN_SHARE_BYTES) {
    const possible = Math.max(1, Math.floor(memoryBytes / MIN_SHARE_BYTES));
    throw new OptionsError([
      `PROCESSES is ${processes}, which leaves each ${Math.floor(memory / MIB)} MiB of memory, expected at least ` +
        `${MIN_SHARE_BYTES / MIB}: start at most ${possible}, or raise the memory limit`,
    ]);
  }
  const left = memory - BASE_BYTES;
  const shares: Record<string, number> = {
    // The main thread of each process takes a core too.
    WORKER_THREADS: Math.max(0, Math.floor(cores / processes) - 1),
    RECEIPT_CACHE_BYTES: Math.min(64 * MIB, Math.floor(left / 4)),
    MAX_BODY_MEMORY: Math.min(128 * MIB, Math.floor(left / 4)),
  };
  // A process that polls for its next request would take the core of another process.
  if (cores / processes < 2) shares['BUSY_POLL_MICROSECS'] = 0;
  const isSet = (name: string) => (env[name] ?? '').trim() !== '';
  // The default of MAX_BODY_MEMORY depends on MAX_BODY_BYTES.
  if (isSet('MAX_BODY_BYTES')) delete shares['MAX_BODY_MEMORY'];
  for (const name of Object.keys(shares)) if (isSet(name)) Reflect.deleteProperty(shares, name);
  for (const name of LIMITS) if (isSet(name)) shares[name] = Math.ceil(Number(env[name]) / processes);
  return Object.fromEntries(Object.entries(shares).map(([name, value]) => [name, String(value)]));
}

/**
 * The addresses of all processes: port 0 becomes a free port, the same one for all.
 *
 * @throws Error if another service has a port
 */
export async function addressesOfAll({
  host,
  port,
  metricsAddr = '',
}: Pick<Configuration, 'host' | 'port' | 'metricsAddr'>): Promise<Record<string, string>> {
  const PORT = await findPort(host, port);
  const metrics = addressOf(metricsAddr);
  if (metrics === null) return { PORT };
  return { PORT, METRICS_ADDR: metricsAddr.replace(/\d+$/, await findPort(metrics.host, metrics.port)) };
}
