import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CONNECT_TIMEOUT_MS } from '../../src/redis/connection.js';
import { RedisLink } from '../../src/redis/link.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { command, RedisServer } from '../usage/redis-server.js';

it('is refused a connection that is lost before Redis has told what it is', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      const text = data.toString();
      if (text.includes('INFO\r\n') && !text.includes('CLIENT')) socket.resetAndDestroy();
      else socket.write('+OK\r\n'.repeat(text.split('\r\nCLIENT\r\n').length - 1));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const link = new RedisLink({
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...{ keeps: 'nothing', needsFile: false, write: () => Promise.resolve(), log: undefined },
    ...{ onDown: () => undefined, onBack: () => undefined },
  });
  await expect(link.open()).rejects.toThrow('cannot connect to Redis at ');
  server.close();
});

/** Answers what node-redis and a look send, until it is told to hang: then it reads nothing any more, and keeps its connections. */
async function startHanging() {
  const sockets: Socket[] = [];
  let hangs = false;
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined));
    if (!hangs)
      socket.on('data', (data) => {
        for (const [, name] of data.toString().matchAll(/\*\d+\r\n\$\d+\r\n([A-Z]+)/g))
          socket.write(name === 'INFO' ? '$11\r\nrole:master\r\n' : '+OK\r\n');
      });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hang() {
      hangs = true;
      for (const socket of sockets) socket.pause();
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe('a Redis that takes connections and then never answers', () => {
  let server: Awaited<ReturnType<typeof startHanging>>;
  const onDown = vi.fn<(error: Error) => void>();
  const newLink = () =>
    new RedisLink({
      ...{ url: server.url, keeps: 'nothing', needsFile: false, callMs: 50, lookMs: 100, onDown },
      write: (connection) => connection.send('key', ['SET', 'key', '1']),
    });
  beforeEach(async () => {
    onDown.mockClear();
    server = await startHanging();
  });
  afterEach(() => server.stop());

  it('keeps no call waiting, sent or not, and is given up with all that was queued for it', async () => {
    const link = newLink();
    const made = vi.spyOn(AbortSignal, 'timeout');
    try {
      const connection = await link.open();
      await expect(link.send('key', ['GET', 'key'])).resolves.toBe('OK');
      server.hang();
      const hungAt = performance.now();
      // The first takes more than the system holds for a reader: the others are never written.
      const queued = ['x'.repeat(2 ** 25), 'y', 'z'].map((value) =>
        connection.send('key', ['SET', 'key', value]),
      );
      const ended = Promise.allSettled(queued);
      await expect(link.send('key', ['GET', 'key'])).rejects.toThrow('no answer within 50 ms');
      expect(performance.now() - hungAt).toBeLessThan(CONNECT_TIMEOUT_MS);
      expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
      expect(onDown.mock.calls.map(([{ message }]) => message)).toEqual(['no answer within 5000 ms']);
      // Node-redis makes one for a command whose time it limits, which costs more than the command.
      expect(made).not.toHaveBeenCalled();
    } finally {
      made.mockRestore();
      link.close();
    }
  });

  it('is not waited for longer than a connection may take, nor is a second connection to it', async () => {
    const link = newLink();
    try {
      const connection = await link.open();
      server.hang();
      await expect(connection.duplicate()).rejects.toThrow(`no answer within ${CONNECT_TIMEOUT_MS} ms`);
    } finally {
      link.close();
    }
  });
});

it(
  'names a password that was changed, also after the fault by which it shows',
  needs('redis-server'),
  async () => {
    const redis = await RedisServer.startNew('--requirepass', 'before');
    const url = redis.url.replace('//', '//:before@');
    const said: string[] = [];
    const link = new RedisLink({
      ...{ url, keeps: 'nothing', needsFile: false, write: () => Promise.resolve() },
      onDown: ({ message }) => said.push(message),
    });
    try {
      await link.open();
      await command({ url }, ['CONFIG', 'SET', 'requirepass', 'after']);
      await command({ url: redis.url.replace('//', '//:after@') }, ['CLIENT', 'KILL', 'TYPE', 'normal']);
      await eventually(() => expect(said).toHaveLength(2));
      expect(said[0]).not.toContain('WRONGPASS');
      expect(said[1]).toMatch(/^cannot connect to Redis at .*: WRONGPASS /);
    } finally {
      link.close();
      await redis.stop();
    }
  },
);
