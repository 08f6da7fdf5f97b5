import { setTimeout as sleep } from 'node:timers/promises';
import { encodeLatencies, newLatencies } from '../measure/latencies.js';
import { Connection, toRequest } from './connection.js';
import type { CrowdJob, CrowdReport } from './crowd.js';
import { RequestSource } from './request-source.js';

/** How often clients look whether their patience is over. */
const LOOK_MS = 5;
/** The pause before a connection that broke is opened again. */
const REOPEN_MS = 10;

const job = JSON.parse(process.argv[2] ?? '') as CrowdJob;
const source = new RequestSource(job.workload);
const requests = new Map<string, Buffer>();
const accepted = newLatencies();
const refusals = newLatencies();
const counts = { answered: 0, good: 0, refused: 0, gaveUp: 0, broken: 0, wrong: 0, firstWrong: '' };
let isEnded = false;

/** Sends a request, waits for its answer, and sends the next. */
class Client {
  #connection: Connection<string> | null = null;
  #sentAt = 0;
  #left = job.requestsEach ?? Infinity;
  readonly done: Promise<void>;
  #end: () => void = () => undefined;

  constructor() {
    this.done = new Promise((resolve) => (this.#end = resolve));
  }

  async open(): Promise<void> {
    this.#connection = await Connection.open(job.port, this.#answers);
  }

  send(): void {
    if (isEnded || this.#left === 0) {
      this.#connection?.close();
      this.#end();
      return;
    }
    this.#left--;
    this.#sentAt = performance.now();
    const { body, answer } = source.next();
    let bytes = requests.get(body);
    if (bytes === undefined) requests.set(body, (bytes = bytesOf(body)));
    this.#connection ??= Connection.begin(job.port, this.#answers);
    this.#connection.send(bytes, answer);
  }

  /** Gives up if the answer has taken too long, and asks again over a new connection. */
  look(now: number): void {
    if (job.patienceMs === null || this.#connection === null || now - this.#sentAt < job.patienceMs) return;
    counts.gaveUp++;
    this.#connection.close();
    this.#connection = null;
    this.send();
  }

  readonly #answers = {
    answered: (answer: string, status: number, body: string, _: unknown, head: string) => {
      const took = performance.now() - this.#sentAt;
      const micros = Math.max(1, Math.round(took * 1000));
      if (status === 503) {
        counts.refused++;
        refusals.recordValue(micros);
      } else if (status === 200 && (answer === '' ? isMarked(head, body) : body === answer)) {
        counts.answered++;
        if (took <= job.goodMs) counts.good++;
        accepted.recordValue(micros);
      } else this.#blame(`${status} ${body.slice(0, 300)}`);
      this.send();
    },
    broken: (_: string | null, reason: string) => {
      counts.broken++;
      counts.firstWrong ||= reason;
      this.#connection = null;
      setTimeout(() => this.send(), REOPEN_MS);
    },
  };

  #blame(reason: string): void {
    counts.wrong++;
    counts.firstWrong ||= reason;
  }
}

function bytesOf(line: string): Buffer {
  const tab = line.indexOf('\t');
  return tab < 0
    ? toRequest(line, job.workload.path)
    : toRequest(line.slice(tab + 1), job.workload.path, line.slice(0, tab));
}

/** Whether an answer has the marker: `Name: value` stands for a header. */
function isMarked(head: string, body: string): boolean {
  const { marker } = job.workload;
  return body.includes(marker) || `${head}\r\n`.toLowerCase().includes(`\r\n${marker.toLowerCase()}\r\n`);
}

const clients = Array.from({ length: job.clients }, () => new Client());
for (const client of clients) await client.open();
const startedAt = performance.now();
const looking = setInterval(() => {
  const now = performance.now();
  for (const client of clients) client.look(now);
}, LOOK_MS);
for (const client of clients) client.send();
if (job.requestsEach === null) await sleep(job.seconds * 1000);
else await Promise.race([Promise.all(clients.map(({ done }) => done)), sleep(job.seconds * 1000)]);
const elapsedSeconds = (performance.now() - startedAt) / 1000;
isEnded = true;
clearInterval(looking);
const report: CrowdReport = {
  ...{ ...counts, elapsedSeconds },
  ...{ accepted: encodeLatencies(accepted), refusals: encodeLatencies(refusals) },
};
process.stdout.write(JSON.stringify(report), () => process.exit(0));
