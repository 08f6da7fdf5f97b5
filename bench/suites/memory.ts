import { Connection, toRequest } from '../load/connection.js';
import { readFileSync } from 'node:fs';
import { startService, type ServerProcess } from '../service/start.js';
import type { Bench, Suite } from '../run/suite.js';
import { makeCall, makeChain, type Chain, type Exchange } from '../workload/chains.js';

const CHAINS = 1_000;
const DEPTH = 4;
const CONNECTIONS = 16;
const SAMPLES = 20;

/** Shows whether memory stays constant while every invocation is new. */
export const memory: Suite = {
  name: 'memory',
  about: 'RSS and heap over many distinct invocations under 1,000 chains (a million with --only memory)',
  run: async (bench) => {
    const server = await startService();
    try {
      await measure(bench, server);
    } finally {
      await server.stop();
    }
  },
};

async function measure({ plan, recorder, say }: Bench, server: ServerProcess): Promise<void> {
  const parameters = { depth: DEPTH, chains: CHAINS, verdicts: plan.memoryVerdicts };
  const chains = Array.from({ length: CHAINS }, () => makeChain(DEPTH));
  let answered = 0;
  let next = 0;
  let wrong = 0;
  let firstWrong = '';
  const resident: number[] = [];
  const each = Math.ceil(plan.memoryVerdicts / SAMPLES);
  const share = async () => {
    let end: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const sendNext = (connection: Connection<Exchange>) => {
      if (next >= plan.memoryVerdicts) {
        connection.close();
        end();
        return;
      }
      // Each request is signed when it is sent: a million prepared requests would not fit into memory.
      const exchange = makeCall(chains[next++ % CHAINS] as Chain);
      connection.send(toRequest(exchange.body), exchange);
    };
    const connection = await Connection.open<Exchange>(server.port, {
      answered: ({ answer }, _status, body, connection) => {
        if (body !== answer) {
          wrong++;
          firstWrong ||= body.slice(0, 300);
        }
        if (++answered % each === 0) {
          resident.push(residentBytes(server.pid));
          say(`memory · ${answered} verdicts: ${Math.round((resident.at(-1) ?? 0) / 1e6)} MB resident`);
        }
        sendNext(connection);
      },
      broken: (_, reason) => {
        wrong++;
        firstWrong ||= reason;
        end();
      },
    });
    sendNext(connection);
    await ended;
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, share));
  recorder.blame('memory', wrong, firstWrong);
  const record = (name: string, value: number) =>
    recorder.record({ id: `memory/${name}`, unit: 'bytes', better: 'lower', value, parameters });
  record('resident', residentBytes(server.pid));
  record('resident-highest', Math.max(...resident));
  // In the first half, the receipt cache fills up and the heap grows to its size.
  const half = resident.slice(Math.floor(resident.length / 2));
  record('resident-growth-in-second-half', (half.at(-1) ?? 0) - (half[0] ?? 0));
  record('heap', await server.metric('nodejs_heap_size_used_bytes'));
  record('receipt-cache', await server.metric('drs_receipt_cache_bytes'));
}

function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}
