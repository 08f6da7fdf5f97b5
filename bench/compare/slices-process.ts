import { Connection } from '../load/connection.js';
import { requestsOf } from '../load/request-source.js';
import { coreTimes, scheduledOf, type CoreTimes } from '../measure/processor-time.js';
import { newLatencies } from '../measure/statistics.js';
import type { Slice, SliceOrder, SlicesJob } from './pair.js';

const { sides, workload } = JSON.parse(process.argv[2] ?? '') as SlicesJob;

/** Both sides get the same requests in the same order, each from a source of its own. */
const sources = sides.map(() => requestsOf(workload));
const lines = sides.map(() => [] as Connection<number>[]);

let latencies = newLatencies();
let until = 0;
let left = 0;
let underway = 0;
let count = 0;
let wrong = 0;
let firstWrong = '';
let finish: () => void = () => undefined;

const micros = () => Number(process.hrtime.bigint()) / 1000;

function sendOn(line: Connection<number>, side: number): void {
  const { bytes } = (sources[side] as ReturnType<typeof requestsOf>)();
  underway++;
  left--;
  line.send(bytes, micros());
}

function openLine(side: 0 | 1): Promise<Connection<number>> {
  return Connection.open<number>(sides[side].port, {
    answered: (sentAt, status, body, line) => {
      const now = micros();
      underway--;
      count++;
      latencies.recordValue(Math.max(1, Math.round(now - sentAt)));
      if (status !== 200 || !body.includes(workload.marker)) blame(`${status} ${body.slice(0, 300)}`);
      if (left > 0 && now < until) sendOn(line, side);
      else if (underway === 0) finish();
    },
    broken: (sentAt, reason) => {
      blame(reason);
      lines[side] = [];
      if (sentAt === null) return;
      underway--;
      if (underway === 0) finish();
    },
  });
}

function blame(reason: string): void {
  wrong++;
  firstWrong ||= reason;
}

async function run({ side, connections, requests, milliseconds }: SliceOrder): Promise<Slice> {
  const own = lines[side] as Connection<number>[];
  while (own.length < connections) own.push(await openLine(side));
  latencies = newLatencies();
  [count, wrong, firstWrong] = [0, 0, ''];
  const { pid } = sides[side];
  const before = { service: scheduledOf(pid), cores: coreTimes(), own: process.cpuUsage() };
  const start = micros();
  until = start + milliseconds * 1000;
  left = requests;
  await new Promise<void>((resolve) => {
    finish = resolve;
    for (const line of own.slice(0, connections)) sendOn(line, side);
  });
  const took = micros() - start;
  const service = scheduledOf(pid);
  const own_ = process.cpuUsage(before.own);
  const cores = coreTimes();
  const ran = (service?.ran ?? Number.NaN) - (before.service?.ran ?? Number.NaN);
  return {
    requests: count,
    seconds: took / 1e6,
    cpu: ran / count,
    p50: latencies.getValueAtPercentile(50),
    p99: latencies.getValueAtPercentile(99),
    others: shareOfOthers(before.cores, cores, ran + own_.user + own_.system),
    wrong,
    firstWrong,
  };
}

function shareOfOthers(before: CoreTimes | null, after: CoreTimes | null, ours: number): number {
  if (before === null || after === null || after.total === before.total) return Number.NaN;
  const busy = after.busy - before.busy + after.stolen - before.stolen;
  return Math.max(0, (busy - ours) / (after.total - before.total));
}

process.on('message', (order: SliceOrder) => void run(order).then((slice) => process.send?.(slice)));
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
