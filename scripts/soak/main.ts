// Runs the service for an hour at a constant load with changing delegations, and reports whether anything grows.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { cpus, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { mean } from 'simple-statistics';
import { describeSplit, SPLIT } from '../../bench/run/programs.js';
import { credentialWith, LIST_ID, newIssuer, toJwt } from '../../test/revocation/lists.js';
import { ServiceProcess } from '../../test/support/service-process.js';
import { revoke, sleep, Traffic } from '../../test/faults/traffic.js';
import { plot } from './plot.js';
import { SERIES, processStats, sumOf, type SeriesName, type Sample } from './sample.js';
import { medianOf, PARTS, percentile, trendOf, type Point } from './trend.js';

const HELP = `npm run soak -- [options]
Runs the service under constant traffic with churn, and checks whether memory, descriptors, handles or p99 grow.

  --minutes <n>   how long (60)
  --load <share>  how busy the service's cores are kept, between the floods (0.7)
  --out <folder>  where soak.svg and soak.json go (reports/soak)
`;
const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    load: { type: 'string', default: '0.7' },
    out: { type: 'string', default: 'reports/soak' },
    help: { type: 'boolean', default: false },
  },
});
const [minutes, load] = [Number(options.minutes), Number(options.load)];
if (options.help || !(minutes > 0) || !(load > 0 && load < 1)) {
  console.log(HELP);
  process.exit(options.help ? 0 : 2);
}

const REPLAY_WINDOW_SECS = 120;
// An invocation is forgotten 60 s after the window's end.
const REMEMBERED_SECS = REPLAY_WINDOW_SECS + 60;
const SAMPLE_SECS = Math.min(10, minutes);
// The machine may become twice as fast or half as fast within the hour, so the rate follows the load.
const FIRST_RATE = 300;
// Without it, ten seconds without an answer would end the traffic for good.
const LEAST_RATE = 30;
const MAX_STEP = 1.25;
const FLOOD = { everySecs: 120, secs: 3, times: 3 };
// After a flood the queue empties within a second. Samples right after a flood would still show its effects.
const FLOOD_ECHO_SECS = 10;
const LIVE_DELEGATIONS = 300;
const TOKEN = 'soak-soak-soak-soak-soak';
/** Growth per hour that does not count: this share of the median, but at least 1. */
const TOLERANCES: Readonly<Record<SeriesName, number>> = {
  rss: 0.1,
  descriptors: 0.1,
  handles: 0.1,
  p99: 0.5,
};
// Caches fill and code is compiled in the first quarter.
const SETTLED = 0.25;

const folder = mkdtempSync(path.join(tmpdir(), 'drs-soak-'));
const issuer = newIssuer();
const listed = new Set<number>();
let list = '';
let listVersion = 0;
const lists = createServer((request, response) => {
  const etag = `"${listVersion}"`;
  if (request.headers['if-none-match'] === etag) return response.writeHead(304, { etag }).end();
  return response.writeHead(200, { 'content-type': 'application/vc+jwt', etag }).end(list);
}).listen(0, '127.0.0.1');
const publish = async () => {
  listVersion++;
  list = await toJwt(
    { ...credentialWith(listed), issuer: issuer.did, validFrom: new Date().toISOString() },
    issuer,
  );
};
await publish();

// Only a service with cores of its own has a load that does not depend on what the sender needs.
const serviceCores = SPLIT?.service ?? null;
if (SPLIT !== null) spawnSync('taskset', ['-acp', SPLIT.generator.join(','), String(process.pid)]);
const service = await ServiceProcess.start({
  within: serviceCores === null ? [] : ['taskset', '-c', serviceCores.join(',')],
  env: {
    DRS_ADMIN_TOKEN: TOKEN,
    LOG_REFUSALS: 'off',
    // A small cache, so that entries are evicted all the time.
    RECEIPT_CACHE_BYTES: '1000000',
    REPLAY_PROTECTION: 'memory',
    // After this time, the record of used invocations no longer grows.
    REPLAY_WINDOW_SECS: String(REPLAY_WINDOW_SECS),
    REVOCATION_STORE_PATH: path.join(folder, 'revoked.txt'),
    STATUS_LIST_BASE_URL: `http://127.0.0.1:${(lists.address() as AddressInfo).port}/list`,
    STATUS_LIST_ISSUER: issuer.did,
    STATUS_LIST_ID: LIST_ID,
    STATUS_CACHE_TTL_SECS: '5',
    STATUS_MAX_STALE_SECS: '60',
    // Shedding during floods is part of the run.
  },
});
const traffic = new Traffic({ url: service.url, rate: FIRST_RATE, isReplayRefused: true, maxUnderWay: 500 });
const ends = performance.now() + minutes * 60_000;
let isFlooded = false;
let floods = 0;

let failedScrapes = 0;
/** Reads the metrics. @returns an empty text if that fails, for example in a flood */
async function scrape(): Promise<string> {
  try {
    // A new connection each time: the service may close a kept one at any moment.
    const headers = { connection: 'close' };
    return await (await fetch(`${service.url}/metrics`, { headers })).text();
  } catch {
    failedScrapes++;
    return '';
  }
}

const chores: NodeJS.Timeout[] = [];
const every = (secs: number, chore: () => unknown) =>
  chores.push(
    setInterval(() => {
      void Promise.resolve(chore()).catch((error: unknown) => {
        console.error(error);
        process.exitCode = 1;
      });
    }, secs * 1000),
  );

every(1, () => {
  for (let at = 0; at < 4; at++) traffic.add();
  traffic.keep(LIVE_DELEGATIONS);
});
every(10, async () => {
  const index = Math.floor(traffic.delegations.length * (0.5 + Math.random() / 2));
  const delegation = traffic.delegations[index];
  if (delegation !== undefined && !(await revoke(service.url, TOKEN, delegation))) {
    console.error('a revocation was not acknowledged');
  }
});
every(20, async () => {
  const delegation = traffic.delegations.at(-1 - Math.floor(Math.random() * 100));
  if (typeof delegation?.index !== 'number') return;
  listed.add(delegation.index);
  await publish();
  // If fetches fail under load, the old list may be used until STATUS_MAX_STALE_SECS are over.
  setTimeout(() => (delegation.revokedAt = Math.min(delegation.revokedAt, performance.now())), 80_000);
});
every(5, () => scrape());
every(2, () => {
  // Send half a request, and then close the connection; every other time in the middle of the headers.
  const socket = connect(service.port, '127.0.0.1');
  socket.on('error', () => undefined);
  const head = `POST /verify HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n`;
  socket.write(Math.random() < 0.5 ? head : `${head}\r\n{"bundle_version":`);
  setTimeout(() => socket.destroy(), 200);
});
every(FLOOD.everySecs, async () => {
  isFlooded = true;
  floods++;
  const flood = new Traffic({
    url: service.url,
    rate: traffic.rate * FLOOD.times,
    connections: 200,
    maxUnderWay: 4000,
  });
  flood.start();
  await sleep(FLOOD.secs * 1000);
  await flood.stop();
  traffic.violations.push(...flood.violations);
  await sleep(FLOOD_ECHO_SECS * 1000);
  isFlooded = false;
});

const loads: number[] = [];
const samples: Sample[] = [];
let before = { at: performance.now(), cpuSecs: processStats(service.pid).cpuSecs, answers: 0 };
const answersSoFar = () => Object.values(traffic.counts).reduce((sum, count) => sum + count, 0);
const start = before.at;
let wasFlooded = false;
every(SAMPLE_SECS, async () => {
  const latencies = traffic.takeLatencies();
  const metrics = await scrape();
  const { rss, descriptors, cpuSecs } = processStats(service.pid);
  const at = performance.now();
  const answers = answersSoFar();
  const rate = (answers - before.answers) / ((at - before.at) / 1000);
  const processorShare = ((cpuSecs - before.cpuSecs) * 1000) / (at - before.at) / (serviceCores?.length ?? 1);
  samples.push({
    hours: (at - start) / 3_600_000,
    rss,
    descriptors,
    handles: metrics === '' ? NaN : sumOf(metrics, 'nodejs_active_handles'),
    p99: percentile(latencies, 0.99),
    processorShare,
    rate,
    isFlooded: isFlooded || wasFlooded,
  });
  if (!isFlooded && !wasFlooded) {
    const step = Math.min(MAX_STEP, Math.max(1 / MAX_STEP, load / processorShare));
    // From the rate that was reached: the sender has limits, too.
    traffic.rate = Math.max(LEAST_RATE, rate * step);
  }
  wasFlooded = isFlooded;
  // On a timer of its own it would slowly shift against the samples, and the count of descriptors with it.
  if (samples.length % 2 === 0) traffic.reconnect();
  before = { at, cpuSecs, answers };
  loads.push(loadavg()[0] ?? 0);
  if (samples.length % 30 === 0) console.log(JSON.stringify(samples.at(-1)));
});

console.log(
  `${100 * load} % load for ${minutes} min, ${describeSplit()}, against ${service.url}, pid ${service.pid}`,
);
traffic.start();
while (performance.now() < ends && process.exitCode === undefined) await sleep(500);
for (const chore of chores) clearInterval(chore);
await traffic.stop();
await service.stop();
lists.close();
rmSync(folder, { recursive: true });

const lasted = (performance.now() - start) / 60_000;
const settledHours = (minutes / 60) * SETTLED;
const checked = samples.filter(({ hours, isFlooded: flooded }) => hours >= settledHours && !flooded);
/** Answers a second in the time for which the service remembers used invocations: its memory depends on that. */
const recentRate = ({ hours }: Sample) =>
  mean(
    samples
      .filter((sample) => sample.hours <= hours && sample.hours > hours - REMEMBERED_SECS / 3600)
      .map(({ rate }) => rate),
  );
const verdicts = Object.fromEntries(
  SERIES.map((name) => {
    const points = checked
      .filter((sample) => Number.isFinite(sample[name]))
      .map((sample): Point =>
        name === 'rss' ? [sample.hours, sample.rss, recentRate(sample)] : [sample.hours, sample[name]],
      );
    if (points.length < PARTS) return [name, null];
    const middle = medianOf(points.map(([, value]) => value));
    const tolerance = Math.max(1, TOLERANCES[name] * middle);
    return [name, { median: middle, tolerance, ...trendOf(points, tolerance) }];
  }),
);
const share = medianOf(checked.map(({ processorShare }) => processorShare));
const made = answersSoFar() / (lasted * 60);
const title = `${made.toFixed(0)} calls/s for ${lasted.toFixed(0)} min, the service's cores ${(100 * share).toFixed(0)} % busy; load of the machine ${medianOf(loads).toFixed(1)} on ${cpus().length} cores`;
mkdirSync(options.out, { recursive: true });
writeFileSync(path.join(options.out, 'soak.svg'), plot(samples, title, settledHours));
writeFileSync(
  path.join(options.out, 'soak.json'),
  `${JSON.stringify({ date: new Date().toISOString(), node: process.version, title, verdicts, answers: traffic.counts, floods, failedScrapes, leftOut: traffic.leftOut, violations: traffic.violations, samples })}\n`,
);

console.log(
  `\n${title}\nanswers: ${JSON.stringify(traffic.counts)}, floods: ${floods}, failed scrapes: ${failedScrapes}, left out: ${traffic.leftOut}`,
);
for (const [name, trend] of Object.entries(verdicts)) {
  if (trend === null) console.log(`${name.padEnd(12)} too few samples`);
  else
    console.log(
      `${name.padEnd(12)} median ${trend.median.toFixed(1)}, ${trend.perHour.toFixed(2)} an hour (${trend.low.toFixed(2)} … ${trend.high.toFixed(2)}), tolerance ${trend.tolerance.toFixed(1)}: ${trend.verdict}`,
    );
}
console.log(`violations: ${traffic.violations.length}`);
for (const violation of traffic.violations.slice(0, 10)) console.log(JSON.stringify(violation));
const grows = Object.values(verdicts).some((trend) => trend?.verdict === 'grows');
if (grows || traffic.violations.length > 0) process.exitCode = 1;
