import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';

const DRS = fileURLToPath(new URL('../../scripts/drs.mjs', import.meta.url));
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const SIGNALS = ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;

function start(program: string, env: Record<string, string> = {}) {
  const { PATH = '' } = process.env;
  const child = spawn(process.execPath, [program, 'serve'], {
    env: { PATH, PORT: '0', FRONT_END, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => (said.out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said.err += chunk.toString()));
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  return { child, said, ended };
}

/** Whether the process has a handler for SIGHUP (1) and SIGUSR2 (12). Node itself has none. */
function hasHandlers({ pid }: ChildProcess): boolean {
  const [, mask = '0'] = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  const caught = BigInt(`0x${mask}`);
  return [1n, 12n].every((signal) => (caught >> (signal - 1n)) % 2n === 1n);
}

describe.runIf(process.platform === 'linux')('signals while the service starts', () => {
  it.each([
    ['scripts/drs.mjs', DRS],
    ['dist/cli/main.js', MAIN],
  ])('do not end it, from its first line on: %s', async (_, program) => {
    const { child, said, ended } = start(program);
    try {
      while (!hasHandlers(child)) {
        await turn();
        expect(child.exitCode).toBeNull();
      }
      // Not a single module of the service is loaded, so nothing has been logged.
      expect(said.out).toBe('');
      while (!said.out.includes('"msg":"listening"')) {
        for (const signal of SIGNALS) child.kill(signal);
        // Without a pause, handling them would take all its time.
        await pause(2);
        expect([child.exitCode, child.signalCode]).toEqual([null, null]);
      }
      // What came early is acted on.
      await eventually(() => expect(said.out).toContain('SIGHUP: the decision log was reopened'));
      await eventually(() => expect(said.out).toContain('SIGUSR2 changed the log level'));
    } finally {
      child.kill('SIGTERM');
    }
    expect(await ended).toEqual([0, null]);
    expect(said.err).not.toContain('Debugger');
  });

  it('are kept while it waits for a store', async () => {
    const sockets: { destroy: () => void }[] = [];
    const silent = createServer((socket) => sockets.push(socket.on('error', () => undefined)));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const { child, said, ended } = start(MAIN, {
      GATE_REPLAY: 'redis',
      REDIS_URL: `redis://127.0.0.1:${port}`,
    });
    await once(silent, 'connection');
    for (const signal of SIGNALS) child.kill(signal);
    // The signals are delivered before this: they were sent first.
    await eventually(() => expect(sockets.length).toBeGreaterThan(0));
    for (const socket of sockets) socket.destroy();
    silent.close();
    expect(await ended).toEqual([1, null]);
    expect(said.err).toContain('cannot connect to Redis');
    expect(said.err).not.toContain('Debugger');
  });
});
