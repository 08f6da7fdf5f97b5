import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { end } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { startService } from '../support/service.js';

// Listens as systemd does. Node has no datagram sockets with a path.
const LISTEN = `socket(S, AF_UNIX, SOCK_DGRAM, 0); bind(S, sockaddr_un($ARGV[0])); $| = 1;
  while (defined recv(S, $message, 4096, 0)) { print "$message\\n" }`;

describe('a unit with Type=notify', needs('systemd-notify', 'perl'), () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-notify-'));
  const socket = path.join(folder, 'notify');
  let systemd: ChildProcess;
  let told: string[] = [];
  beforeEach(async () => {
    told = [];
    const child = spawn('perl', ['-MSocket', '-e', LISTEN, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    systemd = child;
    createInterface({ input: child.stdout }).on('line', (line) => told.push(line));
    await eventually(() => expect(existsSync(socket)).toBe(true));
  });
  afterEach(async () => {
    await end(systemd);
    rmSync(socket);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('is told once that the service is ready', async () => {
    const service = await startService({ WORKER_THREADS: '0', NOTIFY_SOCKET: socket });
    // After it systemd-notify sends BARRIER=1, and waits until that has been read.
    await eventually(() => expect(told).toContain('BARRIER=1'));
    expect(await service.stop()).toBe(0);
    expect(told.filter((line) => line === 'READY=1')).toHaveLength(1);
    expect(service.log.filter(({ msg }) => String(msg).startsWith('systemd-notify'))).toEqual([]);
  });
});

it('says if systemd cannot be told', async () => {
  const service = await startService({
    ...{ NOTIFY_SOCKET: '/nowhere/notify', PATH: '/nowhere', WORKER_THREADS: '0' },
  });
  await eventually(() => {
    const warned = service.log.find(({ msg }) => String(msg).startsWith('systemd-notify could not tell'));
    expect(warned).toMatchObject({ level: 40 });
  });
  expect(await service.stop()).toBe(0);
});
