import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';
import { needs } from '../support/programs.js';
import { startHaproxy, startNginx } from '../support/proxies.js';
import { sendRaw } from '../support/raw-http.js';
import { startService } from '../support/service-in-process.js';
import { metricOf, type RunningService } from '../support/service.js';

// The recipes of docs/operations.md.
const NGINX_RECIPE = `
  proxy_http_version 1.1;
  proxy_set_header Connection "";`;
const HAPROXY_RECIPE = `
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host drs`;
/** HAProxy asks in HTTP/1.0 unless it is told otherwise. */
const PLAIN_CHECK = '  option httpchk GET /readyz';

describe.each(FRONT_END === 'uws' ? (['uws', 'node'] as const) : (['node'] as const))(
  'HTTP/1.0, over FRONT_END=%s',
  (frontEnd) => {
    const speaks = frontEnd === 'node';
    let service: RunningService;
    beforeAll(async () => {
      service = await startService({ FRONT_END: frontEnd });
    });
    afterAll(() => service.stop());

    it.each([
      ['by default', '', speaks],
      ['with the recipe', NGINX_RECIPE, true],
    ])('nginx passes calls on %s', needs('nginx'), async (_, location, isAnswered) => {
      const proxy = await startNginx(`server 127.0.0.1:${service.port};`, location);
      try {
        const body = JSON.stringify(makeBundle(4));
        for (let call = 0; call < 3; call++) {
          const response = await fetch(`${proxy.url}/verify`, { method: 'POST', body });
          expect(response.status).toBe(isAnswered ? 200 : 505);
          if (isAnswered) expect(await response.json()).toMatchObject({ valid: true });
        }
        expect((await fetch(`${proxy.url}/healthz`)).status).toBe(isAnswered ? 200 : 505);
      } finally {
        await proxy.stop();
      }
    });

    it.each([
      ['plain', PLAIN_CHECK, speaks],
      ['of the recipe', HAPROXY_RECIPE, true],
    ])("HAProxy's check, %s", needs('haproxy'), async (_, check, isAnswered) => {
      const checks = async () =>
        metricOf(
          await (await fetch(`${service.url}/metrics`)).text(),
          'drs_http_requests_total{endpoint="readyz",status="200"}',
        );
      const before = await checks();
      const proxy = await startHaproxy(
        `${check}\n  server drs 127.0.0.1:${service.port} check inter 100ms fall 1 rise 1`,
      );
      try {
        if (isAnswered) await eventually(async () => expect(await checks()).toBeGreaterThan(before + 2));
        await eventually(async () =>
          expect((await fetch(`${proxy.url}/healthz`)).status).toBe(isAnswered ? 200 : 503),
        );
      } finally {
        await proxy.stop();
      }
    });

    const ANSWER = /^HTTP\/1\.1 200 OK\r\n.*\{"status":"ok"\}$/s;
    it.each([
      ['a request without headers', 'GET /healthz HTTP/1.0\r\n\r\n', ANSWER],
      [
        'HEAD',
        'HEAD /healthz HTTP/1.0\r\n\r\n',
        /^HTTP\/1\.1 200 OK\r\n.*\r\nContent-Length: 15\r\n.*\r\n\r\n$/s,
      ],
      [
        'a body',
        'POST /verify HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}',
        /^HTTP\/1\.1 200 OK\r\n.*MALFORMED_BUNDLE/s,
      ],
      [
        'an expectation, which HTTP/1.0 does not have',
        'POST /verify HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}',
        /^HTTP\/1\.1 200 OK\r\n.*MALFORMED_BUNDLE/s,
      ],
      [
        'a body in chunks, which HTTP/1.0 does not have',
        'POST /verify HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
        /^HTTP\/1\.1 400 Bad Request\r\n.*\{"error":"Transfer-Encoding in HTTP\/1\.0, expected Content-Length"\}$/s,
      ],
    ])('%s', async (_, request, expected) => {
      const answer = await sendRaw(service.port, request);
      expect(answer).toMatch(speaks ? expected : /^HTTP\/1\.1 505 /);
      // The end of the connection is the end of the answer, and no client of HTTP/1.0 reads chunks.
      expect(answer).toMatch(/^Connection: close\r$/im);
      expect(answer).not.toMatch(/^Transfer-Encoding/im);
    });

    it('keeps a connection open where the client asks for it', async () => {
      const kept = 'GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n';
      const answer = await sendRaw(service.port, kept, kept, 'GET /healthz HTTP/1.0\r\n\r\n');
      const connections = ['Connection: keep-alive', 'Connection: keep-alive', 'Connection: close'];
      expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(
        speaks ? Array(3).fill('HTTP/1.1 200') : ['HTTP/1.1 505'],
      );
      expect(answer.match(/^Connection: [\w-]+/gm)).toEqual(speaks ? connections : ['Connection: close']);
      if (speaks) expect(answer.match(/^Content-Length: 15/gm)).toHaveLength(3);
    });
  },
);
