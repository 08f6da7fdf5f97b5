import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, test } from 'vitest';
import { RedisServer } from '../usage/redis-server.js';
import { portsOutside, startOnPort, unusedPort } from './ports.mjs';
import { needs } from './programs.js';

const run = promisify(execFile);
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function occupy(port: number): Promise<void> {
  const server = createServer().listen(port, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
}

describe('the range', () => {
  it.each([
    ['of Linux', '32768\t60999\n', 10_240, 32_767],
    ['of a system that says nothing', '', 10_240, 32_767],
    ['of one that says something else', 'none', 10_240, 32_767],
    ['where the ephemeral one begins low: above it', '1024\t60999\n', 61_000, 65_535],
    ['where it begins a little higher', '11000\t50000\n', 50_001, 65_535],
    ['where it is everything: the usual one', '1024\t65535\n', 10_240, 32_767],
  ])('%s', (_, text, first, last) => {
    expect(portsOutside(text)).toEqual([first, last]);
  });
});

test('two at once, and two processes, never get the same port, and nothing listens on it', async () => {
  const own = await Promise.all(Array.from({ length: 70 }, unusedPort));
  const module = fileURLToPath(new URL('ports.mjs', import.meta.url));
  const script = `
    import { unusedPort } from ${JSON.stringify(module)};
    console.log(JSON.stringify(await Promise.all(Array.from({ length: 70 }, unusedPort))));`;
  const others = await Promise.all(
    [1, 2, 3].map(async () => {
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script]);
      return JSON.parse(stdout) as number[];
    }),
  );
  // A process that has ended gives its ports back, so only those of this one are compared.
  expect(new Set(own).size).toBe(70);
  expect(others.flat().filter((port) => own.includes(port))).toEqual([]);
  for (const port of own) await occupy(port);
});

describe('a program that is started on a port', () => {
  it('is started again on another one if something else listens there', async () => {
    const tried: number[] = [];
    const started = await startOnPort(async (port) => {
      tried.push(port);
      if (tried.length < 3) {
        await occupy(port);
        throw new Error('cannot bind');
      }
      return port;
    });
    expect([tried.length, new Set(tried).size, started]).toEqual([3, 3, tried[2]]);
  });

  it('is not started again if it fails for another reason, or always', async () => {
    let starts = 0;
    const fail = async (occupies: boolean) => {
      await startOnPort(async (port) => {
        starts++;
        if (occupies) await occupy(port);
        throw new Error(`start ${starts}`);
      });
    };
    await expect(fail(false)).rejects.toThrow('start 1');
    await expect(fail(true)).rejects.toThrow('start 9');
  });

  it('may be Redis', needs('redis-server'), async () => {
    let taken = 0;
    const redis = await startOnPort(async (bus) => {
      if (taken === 0) await occupy((taken = bus));
      return RedisServer.start('--cluster-enabled', 'yes', '--cluster-port', String(bus));
    });
    expect(redis.url).toMatch(/^redis:/);
    await redis.stop();
  });
});
