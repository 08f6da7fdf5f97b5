import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { mean } from 'simple-statistics';
import { CALL_ARGS, makeCalls, type Answered, type Exchange } from './chains.js';

/** Kinds of traffic: every receipt known, and none known. */
export type Traffic = 'warm' | 'cold';

/** Requests for a load generator, which sends them in turn, and starts again at the end. */
export interface Workload {
  readonly traffic: Traffic;
  readonly depth: number;
  /** Has an {@link Exchange} in each line. */
  readonly file: string;
  /** Where the next run continues, so that cold traffic does not repeat what the last one sent. */
  readonly start: number;
  /** A text that must be in every answer that is not known exactly; `Name: value` stands for a header. */
  readonly marker: string;
  /** Of an HTTP request; {@link CHECK} stands for gRPC. */
  readonly path: string;
  readonly bodyBytes: number;
}

export const CHECK = '/envoy.service.auth.v3.Authorization/Check';

/** The cache size of services that get cold traffic. It is small, so that few chains are enough to always miss it. */
export const COLD_CACHE_BYTES = 256 * 1024;

const WARM_CALLS = 256;
const WARM_CALLS_PER_CHAIN = 32;
// A cached receipt takes some 5 KB as the cache counts, so this is many times what fits. The first ones fill the cache,
// and stay until they are sent for the second time, so they must be few. After each run, the service's metrics are
// checked: hardly any receipt may have been found in the cache.
const COLD_RECEIPTS = 10_000;

/** Makes workloads and keeps them for the length of a run. */
export class Workloads {
  readonly directory: string;
  readonly #made: Record<string, readonly Answered[]> = {};
  readonly #written: Record<string, Workload> = {};
  readonly #starts = new Map<string, number>();

  /** @param directory the directory for the files; the caller removes it */
  constructor(directory: string) {
    this.directory = directory;
  }

  warm(depth: number): readonly Answered[] {
    return (this.#made[`warm-${depth}`] ??= makeCalls(depth, WARM_CALLS, WARM_CALLS_PER_CHAIN));
  }

  cold(depth: number): readonly Answered[] {
    return (this.#made[`cold-${depth}`] ??= makeCalls(depth, Math.ceil(COLD_RECEIPTS / depth), 1));
  }

  files(traffic: Traffic, depth: number): Workload {
    const write = () => this.write(traffic, depth, this[traffic](depth), `"chain_depth":${depth},`);
    const workload = (this.#written[`${traffic}-${depth}`] ??= write());
    return { ...workload, start: this.#starts.get(workload.file) ?? 0 };
  }

  /** Warm calls, for a server whose answers are right only in {@link Workload.marker}. */
  marked(depth: number): Workload {
    const calls = this.warm(depth).map(({ body }) => ({ body }));
    return this.write('warm', depth, calls, `"chain_depth":${depth},`, '/verify', 'marked');
  }

  advance({ file, traffic, start }: Workload, requests: number): void {
    if (traffic === 'cold') this.#starts.set(file, start + Math.ceil(requests));
  }

  write(
    traffic: Traffic,
    depth: number,
    exchanges: readonly Exchange[],
    marker: string,
    target = '/verify',
    name: string = traffic,
  ): Workload {
    const file = path.join(this.directory, `${name}-${depth}`);
    writeFileSync(file, exchanges.map((exchange) => JSON.stringify(exchange)).join('\n'));
    const bodyBytes = Math.round(mean(exchanges.map(({ body }) => body.length)));
    return { traffic, depth, file, start: 0, marker, path: target, bodyBytes };
  }
}

const { tool, ...args } = CALL_ARGS;
const params = { name: tool, arguments: args };
const MESSAGE = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params });

export function gateCalls(workloads: Workloads, depth: number, traffic: Traffic = 'warm') {
  return workloads[traffic](depth).map(({ body }) => ({
    /** For `/verify`: the bundle, and the arguments to which it must be bound. */
    verify: JSON.stringify({ ...(JSON.parse(body) as object), body: CALL_ARGS }),
    /** For a gate: the bundle in base64url, and the MCP message. */
    bundle: Buffer.from(body).toString('base64url'),
    message: MESSAGE,
  }));
}

/** The same calls as files: for `/verify` with the arguments, and for the gate over HTTP and gRPC. */
export function gateWorkloads(workloads: Workloads, depth: number, traffic: Traffic = 'warm') {
  const calls = gateCalls(workloads, depth, traffic);
  const bound = calls.map(({ verify }) => ({ body: verify }));
  const gated = calls.map(({ bundle, message }) => ({ body: message, bundle }));
  const name = traffic === 'warm' ? 'gate' : 'cold-gate';
  const gate = workloads.write(traffic, depth, gated, `X-DRS-Chain-Depth: ${depth}`, '/gate/mcp', name);
  return {
    verify: workloads.write(traffic, depth, bound, `"chain_depth":${depth},`, '/verify', `${name}-bound`),
    ...{ gate, grpc: { ...gate, path: CHECK } },
  };
}
