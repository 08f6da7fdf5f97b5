// Counts the requests that fail while `drs serve --processes` replaces its processes (SIGHUP), of clients that keep their
// connections and of clients that open one for each request. `npm run compile && node .build/test/e2e/measure-roll.js
// [rolls] [processes]`
import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ServiceProcess } from '../support/service-process.js';

const rolls = Number(process.argv[2] ?? 5);
const processes = Number(process.argv[3] ?? 3);
const CLIENTS = 16;
const PAUSE_MS = 2;

const service = await ServiceProcess.start({
  env: { PROCESSES: String(processes), GATE_REPLAY: 'off' },
});
/** What came of the requests, and how often. */
const counts: Record<string, Record<string, number>> = { 'kept connections': {}, 'a connection each': {} };
let isOver = false;

/** The status of the answer, or why there was none. */
const send = (agent: Agent) =>
  new Promise<string>((resolve) => {
    const target = { port: service.port, host: '127.0.0.1', method: 'POST', path: '/verify', agent };
    const request = httpRequest(target, (response) => {
      response.resume();
      response.on('end', () => resolve(String(response.statusCode)));
      response.on('error', (error) => resolve(error.message));
    });
    request.on('error', ({ message }) =>
      resolve(`${message}${request.reusedSocket ? ' on a kept connection' : ''}`),
    );
    request.end('{}');
  });

async function client(name: string, outcomes: Record<string, number>): Promise<void> {
  const agent = new Agent({ keepAlive: name === 'kept connections', maxSockets: 1, timeout: 4000 });
  while (!isOver) {
    const outcome = await send(agent);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    await sleep(PAUSE_MS);
  }
  agent.destroy();
}

const clients = Object.entries(counts).flatMap(([name, outcomes]) =>
  Array.from({ length: CLIENTS }, () => client(name, outcomes)),
);
const start = performance.now();
const rolled = () => service.log.filter(({ msg }) => String(msg).startsWith('rolled')).length;
for (let roll = 1; roll <= rolls; roll++) {
  service.signal('SIGHUP');
  while (rolled() < roll) await sleep(50);
}
const secs = (performance.now() - start) / 1000;
isOver = true;
await Promise.all(clients);
console.log(`${rolls} rolls of ${processes} processes in ${secs.toFixed(1)} s`);
for (const [name, outcomes] of Object.entries(counts)) console.log(name, outcomes);
await service.stop();
