import { setTimeout as pause } from 'node:timers/promises';
import { startOnPort } from '../support/ports.mjs';
import { command, RedisServer } from './redis-server.js';

const SLOTS = 16_384;

/** A real Redis Cluster of primaries without replicas. */
export interface RedisCluster {
  readonly nodes: readonly RedisServer[];
  stop(): Promise<void>;
}

/**
 * Starts one, and waits until all nodes know all slots.
 *
 * @param more options of each node
 */
export async function startRedisCluster(size: number, ...more: string[]): Promise<RedisCluster> {
  const nodes: RedisServer[] = [];
  for (let at = 0; at < size; at++) {
    // The bus is given a port too: its default, the port and 10,000, may be beyond the last one.
    const [node, busPort] = await startOnPort(async (bus) => {
      const options = [
        ...['--cluster-enabled', 'yes', '--cluster-port', String(bus), '--cluster-node-timeout', '60000'],
        // If one node is down, the others keep working.
        ...['--cluster-require-full-coverage', 'no', ...more],
      ];
      return [await RedisServer.start(...options), String(bus)] as const;
    });
    nodes.push(node);
    const { port } = new URL(node.url);
    await command(node, [
      'CLUSTER',
      'ADDSLOTSRANGE',
      String(Math.ceil((SLOTS * at) / size)),
      String(Math.ceil((SLOTS * (at + 1)) / size) - 1),
    ]);
    if (at > 0) await command(nodes[0] as RedisServer, ['CLUSTER', 'MEET', '127.0.0.1', port, busPort]);
  }
  for (const node of nodes) {
    await untilWell(async () => {
      const info = String(await command(node, ['CLUSTER', 'INFO']));
      if (!/cluster_slots_ok:16384/.test(info) || !/cluster_state:ok/.test(info)) throw new Error(info);
      const slots = (await command(node, ['CLUSTER', 'SLOTS'])) as unknown[];
      if (slots.length !== size) throw new Error(`${slots.length} ranges`);
    });
  }
  return {
    nodes,
    stop: async () => {
      for (const node of nodes) await node.stop();
    },
  };
}

/** Not `eventually`: a script has no test runner. */
async function untilWell(check: () => Promise<void>): Promise<void> {
  const deadline = performance.now() + 60_000;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await pause(50);
    }
  }
}
