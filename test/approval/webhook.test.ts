import { createServer, type IncomingHttpHeaders } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { webhookTo, type Notice } from '../../src/approval/webhook.js';

const NOTICE: Notice = {
  text: 'A call waits for your yes: https://drs.example/approve/abc',
  ...{ url: 'https://drs.example/approve/abc', tool: 'transfer', root_name: 'Alice', expires_at: 1 },
};
const got: {
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}[] = [];
let statuses: number[] = [];
const server = createServer((req, res) => {
  void text(req).then((body) => {
    got.push({ url: req.url, headers: req.headers, body });
    const status = statuses.shift() ?? 204;
    res.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end('answer');
  });
});
let address: string;
beforeEach(async () => {
  got.length = 0;
  statuses = [];
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

const log = { warn: vi.fn() };
const notice = () => Promise.resolve(NOTICE);

it('is told once, with a signature over the body', async () => {
  const sign = vi.fn(() => 'a.b.c');
  await webhookTo(address, sign, log)(notice);
  expect(got).toMatchObject([
    {
      body: JSON.stringify(NOTICE),
      headers: { 'content-type': 'application/json', 'x-drs-signature': 'a.b.c' },
    },
  ]);
  expect(sign).toHaveBeenCalledWith(JSON.stringify(NOTICE));
  await webhookTo(address, null, log)(notice);
  expect(got[1]?.headers).not.toHaveProperty('x-drs-signature');
});

it('is told again until it takes it, four times at most, and follows no redirect', async () => {
  log.warn.mockClear();
  const tell = webhookTo(address, null, log, [1, 1, 1]);
  statuses = [500, 302, 200];
  await tell(notice);
  expect(got).toHaveLength(3);
  expect(log.warn).not.toHaveBeenCalled();
  statuses = [500, 500, 500, 500, 200];
  await tell(notice);
  expect(got.map(({ url }) => url)).toEqual(Array(7).fill('/hook'));
  expect(log.warn).toHaveBeenCalledOnce();
});

it('does not keep more than 100', async () => {
  log.warn.mockClear();
  // Once each: on a busy machine, some answers come after the time for them.
  const tell = webhookTo(address, null, log, []);
  let go = () => {};
  const held = new Promise<Notice>((resolve) => (go = () => resolve(NOTICE)));
  const all = Array.from({ length: 100 }, () => tell(() => held));
  await tell(notice);
  expect(log.warn).toHaveBeenCalledWith({}, 'APPROVALS_WEBHOOK is not told of a question: 100 others wait');
  go();
  await Promise.all(all);
  await tell(notice);
  expect(got).toHaveLength(101);
});
