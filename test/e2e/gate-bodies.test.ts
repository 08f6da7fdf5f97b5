import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { a2aBundle, a2aCall, httpCall, mcpBundle, toolCall } from '../gate/attacks.js';
import { eventually } from '../support/eventually.js';
import { connectRaw } from '../support/raw-http.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

/** Bodies that differ from their announced length: the gate never decides on a part of one. */

let gate: RunningService;
beforeAll(async () => {
  gate = await startService({
    REQUEST_TIMEOUT_SECS: '2',
  });
});
afterAll(() => gate.stop());

const WAYS = [
  { path: '/gate/mcp', bundle: mcpBundle, body: toolCall() },
  { path: '/gate/a2a/a2a', bundle: a2aBundle, body: a2aCall() },
  { path: '/gate/http', bundle: mcpBundle, body: httpCall },
];

const head = (path: string, bundle: string, framing: string) =>
  [
    `POST ${path} HTTP/1.1`,
    'Host: tools.example',
    'Content-Type: application/json',
    `X-DRS-Bundle: ${bundle}`,
    framing,
    '\r\n',
  ].join('\r\n');
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const allowed = async (path: string, bundle: string, body: string) => {
  const headers = { 'X-DRS-Bundle': bundle, 'Content-Type': 'application/json' };
  const { status } = await fetch(gate.url + path, { method: 'POST', headers, body });
  return status;
};

// At once: what is cut off takes its time. All of them, since they only wait.
vi.setConfig({ maxConcurrency: 32 });
describe.concurrent.each(WAYS)('$path', ({ path, bundle: sign, body }) => {
  const parts = [
    ['a body shorter than its Content-Length', `Content-Length: ${body.length + 1}`, body],
    ['chunks that never end', 'Transfer-Encoding: chunked', chunk(body)],
    ['a body that never begins', `Content-Length: ${body.length}`, ''],
  ] as const;

  it.each(parts)('answers 408 to %s, and uses nothing up', async (_, framing, sent) => {
    const bundle = sign();
    const { socket, closed } = await connectRaw(gate.port);
    socket.write(head(path, bundle, framing) + sent);
    const answer = await closed;
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(answer.toLowerCase()).toContain('x-drs-code: body_timeout');
    expect(answer).toContain(
      path === '/gate/http' ? '"code":"BODY_TIMEOUT"' : '"message":"DRS: BODY_TIMEOUT: ',
    );
    // More than once where this machine is so slow that it is cut off itself: that uses nothing up, either.
    await eventually(async () => expect(await allowed(path, bundle, body)).toBe(200));
  });

  it.each(parts)(
    'allows nothing for %s whose sender goes away, and uses nothing up',
    async (_, framing, sent) => {
      const bundle = sign();
      const { socket, closed } = await connectRaw(gate.port);
      socket.end(head(path, bundle, framing) + sent);
      expect(await closed).not.toContain('HTTP/1.1 200');
      await eventually(async () => expect(await allowed(path, bundle, body)).toBe(200));
    },
  );

  it('checks no more of a body than was announced', async () => {
    const { socket, closed } = await connectRaw(gate.port);
    const short = body.slice(0, -1);
    socket.write(head(path, sign(), `Content-Length: ${short.length}`) + body);
    await Promise.race([once(socket, 'data'), closed]);
    socket.end();
    const answer = await closed;
    // What follows is no request. `node:http` closes the connection for it, before or after the answer.
    expect(answer).toMatch(/^(?:HTTP\/1\.1 40[03] |$)/);
  });

  it('takes neither two lengths nor a length beside chunks', async () => {
    for (const framing of [
      `Content-Length: ${body.length}\r\nContent-Length: 0`,
      `Content-Length: ${body.length}\r\nTransfer-Encoding: chunked`,
      'Transfer-Encoding: gzip, chunked',
      'Transfer-Encoding: identity',
    ]) {
      const { socket, closed } = await connectRaw(gate.port);
      socket.write(head(path, sign(), framing) + body);
      expect(await closed).toMatch(/^HTTP\/1\.1 400 /);
    }
  });
});
