import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
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
