import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import type { Fault, Scene } from './fault.js';
import { sleep } from './traffic.js';

const PRELOAD = `--import=${path.resolve('test/faults/worker-faults.mjs')}`;
const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1';

const has = (log: readonly Record<string, unknown>[], text: RegExp) =>
  log.some((entry) => text.test(JSON.stringify(entry)));

const inWorker = (name: string, fault: 'crash' | 'memory', isQuick: boolean): Fault => ({
  name,
  row: 'a worker crashes, or is out of memory',
  isQuick,
  stated:
    'The main thread verifies its signatures: no call is lost. Another worker starts, and the log reports it.',
  prepare: () => ({
    env: { WORKER_THREADS: '1', WORKER_FAULT: fault },
    nodeFlags: [PRELOAD, '--max-old-space-size=256'],
    rate: 100,
    run: async ({ service, traffic, demand, lastMs }) => {
      const end = performance.now() + 60_000;
      const died = () => has(service.log, /a signature worker ended on its own/);
      // Of what comes one by one, the main thread verifies nearly all itself.
      while (!died() && performance.now() < end)
        await Promise.all(Array.from({ length: 40 }, () => traffic.send('good')));
      demand(died(), 'no worker died within 60 s');
      await sleep(lastMs);
      demand((traffic.counts['no answer'] ?? 0) === 0, 'calls were left without an answer');
    },
  }),
});

const stall: Fault = {
  name: 'the process is stopped (SIGSTOP)',
  isQuick: true,
  stated: 'Calls wait until the process continues.',
  prepare: (folder) => ({
    env: { REVOCATION_STORE_PATH: path.join(folder, 'revoked.txt') },
    run: async ({ service, lastMs, traffic, revokeOne, note }) => {
      service.signal('SIGSTOP');
      const revoking = revokeOne();
      await sleep(lastMs);
      service.signal('SIGCONT');
      note(
        `a revocation sent meanwhile was ${(await revoking) ? 'acknowledged afterwards' : 'not acknowledged'}`,
      );
      note(`${traffic.counts['no answer'] ?? 0} calls without an answer`);
    },
  }),
};

const eventLoop: Fault = {
  name: 'the event loop is kept busy',
  stated: 'Calls wait. Results of workers that have finished meanwhile count.',
  prepare: () => ({
    env: { STALL_MS: '7000' },
    nodeFlags: [PRELOAD],
    run: async ({ service, traffic, demand }) => {
      service.signal('SIGUSR2');
      await sleep(7100);
      demand((traffic.counts['no answer'] ?? 0) === 0, 'calls were left without an answer');
    },
  }),
};

const descriptors: Fault = {
  name: 'no descriptors are left',
  stated:
    'New connections above `MAX_CONNECTIONS` are closed at once. Open connections still work. Revocations are still recorded.',
  prepare: (folder) => ({
    env: { REVOCATION_STORE_PATH: path.join(folder, 'revoked.txt') },
    within: ['sh', '-c', 'ulimit -n 128; exec "$0" "$@"'],
    run: async ({ service, revokeOne, note, lastMs }) => {
      const sockets: Socket[] = [];
      for (let at = 0; at < 300; at++) {
        const socket = connect(service.port, '127.0.0.1');
        socket.on('error', () => undefined);
        sockets.push(socket);
      }
      await sleep(lastMs);
      note(`${sockets.filter(({ destroyed }) => !destroyed).length} of 300 idle connections stayed`);
      note(`a revocation was ${(await revokeOne()) ? 'acknowledged' : 'not acknowledged'}`);
      for (const socket of sockets) socket.destroy();
    },
  }),
};

const diskFull: Fault = {
  name: 'the disk is full',
  isQuick: true,
  missing: () => (existsSync('/usr/bin/prlimit') ? null : 'prlimit (util-linux)'),
  stated: 'A revocation that cannot be recorded gets 503 and is not in force. The service still verifies.',
  prepare: (folder) => ({
    env: { REVOCATION_STORE_PATH: path.join(folder, 'revoked.txt') },
    run: async ({ service, revokeOne, note, demand }) => {
      // Writing more than this many bytes to a file fails (EFBIG), even in the middle of a line.
      const limit = (bytes: string) =>
        spawnSync('prlimit', ['--pid', String(service.pid), `--fsize=${bytes}`]).status === 0;
      demand(limit('20:'), 'prlimit failed');
      let refused = 0;
      for (let at = 0; at < 12; at++) if (!(await revokeOne())) refused++;
      demand(refused > 0, 'every revocation was acknowledged, on a full disk');
      note(`${refused} of 12 revocations refused`);
      demand(limit('unlimited:'), 'prlimit failed');
      demand(await revokeOne(), 'no revocation is recorded after there is room again');
      // Kill the service: its next start must read all revocations from the disk.
      await service.stop('SIGKILL');
      await service.restart();
    },
  }),
};

const clock: Fault = {
  name: 'the clock jumps forward and back',
  missing: () => (existsSync(FAKETIME) ? null : 'libfaketime (Debian: faketime)'),
  stated:
    'A receipt is refused (`EXPIRED`, `NOT_YET_VALID`) while the clock is outside its window. Revocations do not depend on the clock.',
  prepare: (folder) => {
    const file = path.join(folder, 'time');
    const set = (offset: string) => writeFileSync(file, offset);
    set('+0');
    return {
      env: {
        LD_PRELOAD: FAKETIME,
        FAKETIME_TIMESTAMP_FILE: file,
        FAKETIME_NO_CACHE: '1',
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
        REVOCATION_STORE_PATH: path.join(folder, 'revoked.txt'),
      },
      run: async (scene) => {
        for (const [offset, code] of [
          ['+3h', 'EXPIRED'],
          ['-3h', 'NOT_YET_VALID'],
        ] as const) {
          set(offset);
          await sleep(500);
          await allRefused(scene, code);
          scene.demand(await scene.revokeOne(), 'no revocation while the clock is wrong');
          set('+0');
          scene.demand((await scene.traffic.untilValid(20_000)) < Infinity, 'not valid again');
        }
      },
    };
  },
};

async function allRefused({ traffic, demand, note }: Scene, code: string): Promise<void> {
  const seen = new Set<string>();
  for (let at = 0; at < 20; at++) {
    const answer = await traffic.send('good');
    demand(answer?.valid !== true, `valid where ${code} was expected`);
    if (answer !== null) seen.add(answer.code);
  }
  note(`${[...seen].join(', ')} while the clock is wrong`);
}

const killed: Fault = {
  name: 'kill -9: starting, idle, under load, revoking, draining',
  isQuick: true,
  stated:
    'Connections break. Every acknowledged revocation is in force after the next start, which removes a partly written line.',
  prepare: (folder) => ({
    env: { REVOCATION_STORE_PATH: path.join(folder, 'revoked.txt') },
    run: async ({ service, revokeOne, note, lastMs }) => {
      const rounds = Math.max(1, Math.round(lastMs / 400));
      let acknowledged = 0;
      for (let round = 0; round < rounds; round++) {
        // While revocations are being recorded.
        const revoking = Array.from({ length: 4 }, revokeOne);
        await sleep(Math.random() * 200);
        await service.stop('SIGKILL');
        acknowledged += (await Promise.all(revoking)).filter(Boolean).length;
        // While it starts.
        const starting = service.restart().catch(() => undefined);
        await sleep(Math.random() * 400);
        await service.stop('SIGKILL');
        await starting;
        await service.restart();
        // While it drains.
        service.signal('SIGTERM');
        await sleep(Math.random() * 20);
        await service.stop('SIGKILL');
        await service.restart();
      }
      note(`${3 * rounds} kills; ${acknowledged} of ${4 * rounds} revocations under way were acknowledged`);
    },
  }),
};

/** Faults of the process and of the machine that it runs on. */
export const processFaults: readonly Fault[] = [
  inWorker('a worker crashes', 'crash', true),
  inWorker('a worker is out of memory', 'memory', false),
  stall,
  eventLoop,
  descriptors,
  diskFull,
  clock,
  killed,
];
