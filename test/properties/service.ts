import { liveCall, liveChain } from '../middleware/call.js';
import { Random } from '../oracle/generator/random.js';
import type { Property } from './property.js';
import { sleep, type Service } from './subject.js';

const SECRET = 's3cr3t-marker';

/** No output contains a secret of the configuration, even if the configuration is refused. */
export const secrets: Property = {
  name: 'no secret is printed',
  async check(subject) {
    const found: string[] = [];
    const urls = [
      `http://user:${SECRET}@127.0.0.1:9/list`,
      `http://127.0.0.1:9/list?token=${SECRET}`,
      `ftp://user:${SECRET}@127.0.0.1/list`,
      `http://user:${SECRET}@[bad/list?key=${SECRET}`,
      `//user:${SECRET}@127.0.0.1:9/list`,
    ];
    const environments: Record<string, string>[] = [
      ...urls.map((url) => ({ STATUS_LIST_BASE_URL: url })),
      ...urls.map((url) => ({ REDIS_URL: url.replace('http', 'redis'), REPLAY_PROTECTION: 'redis' })),
      { DRS_ADMIN_TOKEN: `${SECRET}-long-enough-to-be-one` },
      { DRS_ADMIN_TOKEN: `${SECRET}-long-enough-to-be-one`, PORT: 'x' },
      { DRS_ADMIN_TOKEN: ` ${SECRET} with spaces ` },
    ];
    for (const environment of environments) {
      const service = await Promise.race([
        subject.serve({ ...environment, STATUS_FETCH_TIMEOUT_MS: '100' }),
        sleep(20_000).then(() => undefined),
      ]);
      let output = '';
      if (service === undefined) {
        const { output: said } = await subject.run(['serve'], { PORT: 'x', ...environment });
        output = said;
      } else {
        await fetch(`${service.url}/readyz`).then((answer) => answer.text());
        await sleep(500);
        output = service.output() + (await (await fetch(`${service.url}/metrics`)).text());
        await service.stop();
      }
      const line = output.split('\n').find((text) => text.includes(SECRET));
      if (line !== undefined) found.push(`${Object.keys(environment).join()}: ${line.slice(0, 200)}`);
    }
    return found;
  },
};

const TOKEN = 'property-admin-token-1234';
const revoke = (service: Service, index: number, token = TOKEN) =>
  service.post('/admin/revoke', { status_list_index: index }, { authorization: `Bearer ${token}` });

/** Requests by strangers cannot keep an operator from revoking. */
export const limits: Property = {
  name: 'strangers do not use up the limits of the operator',
  async check(subject) {
    const found: string[] = [];
    const service = await subject.serve({ RATE_LIMIT_GLOBAL: '10', DRS_ADMIN_TOKEN: TOKEN });
    if (service === undefined) return ['the service does not start'];
    const floods: Record<string, () => Promise<Response>> = {
      'unknown paths': () => fetch(`${service.url}/unknown`),
      bundles: () => service.post('/verify', {}),
      'wrong methods': () => fetch(`${service.url}/verify`),
    };
    for (const [flood, send] of Object.entries(floods)) {
      let refused = 0;
      for (let index = 0; index < 8; index++) {
        await Promise.all(Array.from({ length: 30 }, () => send().then((answer) => answer.text())));
        if ((await revoke(service, index)).status === 429) refused++;
        await sleep(150);
      }
      if (refused > 0) found.push(`${flood}: ${refused} of 8 revocations got 429`);
    }
    await service.stop();
    return found;
  },
};

/** If the service starts with a token, it also accepts that token in requests. */
export const tokens: Property = {
  name: 'a token that is taken at start is taken in a request',
  async check(subject) {
    const found: string[] = [];
    const random = new Random(11);
    const pieces = ['a', 'B', '7', '-', '_', ' ', '\t', '+', '/', '=', '"', ',', ':', 'é', '~'];
    for (let times = 0; times < 10; times++) {
      const token =
        times === 0
          ? 'plain-token-of-24-letters'
          : `start-of-a-token-${Array.from({ length: 6 }, () => random.pick(pieces)).join('')}${random.pick(['', ' ', 'x'])}`;
      const service = await subject.serve({ DRS_ADMIN_TOKEN: token });
      if (service === undefined) continue;
      let status = 0;
      try {
        ({ status } = await revoke(service, 1, token));
      } catch {
        // A header cannot hold this token.
      }
      if (status !== 200)
        found.push(`${JSON.stringify(token)} is taken at start, and a request with it gets ${status}`);
      await service.stop();
    }
    return found;
  },
};

/** Requests that a foreign web page can send without a preflight are refused. */
export const pages: Property = {
  name: 'a web page cannot ask',
  async check(subject) {
    const found: string[] = [];
    const service = await subject.serve({ DRS_ADMIN_TOKEN: TOKEN });
    if (service === undefined) return ['the service does not start'];
    const bundle = JSON.stringify(liveCall(liveChain(1), { tool: 'search' }));
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])
      for (const where of ['/verify', '/v1/gate']) {
        const text = `POST ${where} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nContent-Type: ${type}\r\nContent-Length: ${bundle.length}\r\nConnection: close\r\n\r\n${bundle}`;
        const answer = await service.raw([text], /\r\n\r\n.+/s);
        if (/^HTTP\/1.1 200/.test(answer))
          found.push(`${where} with ${type} from another origin: ${answer.slice(0, 15)}`);
      }
    await service.stop();
    return found;
  },
};

const post = (body: string, headers: string, where = '/verify') =>
  `POST ${where} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n${body}`;

/** A request whose end two parsers could see at different places gets no verdict. */
export const framing: Property = {
  name: 'no verdict on a request that can be cut in two ways',
  async check(subject) {
    const found: string[] = [];
    const body = JSON.stringify(liveCall(liveChain(1), { tool: 'search' }));
    const { length } = body;
    const chunked = `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    const cases: Record<string, string> = {
      'two lengths': post(body, `Content-Length: ${length}\r\nContent-Length: ${length + 5}\r\n`),
      'two lengths, the other first': post(
        `${body}12345`,
        `Content-Length: ${length}\r\ncontent-length: 3\r\n`,
      ),
      'a list of lengths': post(body, `Content-Length: ${length}, ${length + 1}\r\n`),
      'a length with a sign': post(body, `Content-Length: +${length}\r\n`),
      'a length in hex': post(body, `Content-Length: 0x${length.toString(16)}\r\n`),
      'length and chunks': post(chunked, `Content-Length: ${length}\r\nTransfer-Encoding: chunked\r\n`),
      'an unknown coding': post(chunked, 'Transfer-Encoding: gzip\r\n'),
      identity: post(chunked, 'Transfer-Encoding: identity\r\n'),
      'chunked, not last': post(chunked, 'Transfer-Encoding: chunked, gzip\r\n'),
      'chunked twice': post(chunked, 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n'),
      xchunked: post(chunked, 'Transfer-Encoding: xchunked\r\n'),
      'a space before the colon': post(body, `Content-Length : ${length}\r\n`),
    };
    for (const frontEnd of ['uws', 'node']) {
      const service = await subject.serve({ FRONT_END: frontEnd });
      if (service === undefined) continue;
      for (const [name, text] of Object.entries(cases)) {
        const answer = await service.raw([text], /\r\n\r\n.*\}/s);
        if (answer.includes('"valid"'))
          found.push(`${frontEnd}: ${name} gets ${/\{.*/s.exec(answer)?.[0].slice(0, 60) ?? ''}`);
      }
      await service.stop();
    }
    return found;
  },
};

/** The answer does not depend on how a request is cut into packets. A refusal for size can be read by the client. */
export const packets: Property = {
  name: 'packets and sizes change no answer',
  async check(subject) {
    const found: string[] = [];
    const random = new Random(5);
    const body = JSON.stringify(liveCall(liveChain(2), { tool: 'search' }));
    for (const frontEnd of ['uws', 'node']) {
      const service = await subject.serve({ FRONT_END: frontEnd });
      if (service === undefined) continue;
      for (const size of [100, 3_000, 8_000, 14_000, 30_000]) {
        const text = post(
          body,
          `X-DRS-Bundle: ${'a'.repeat(size)}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`,
        );
        const statuses = new Set<string>();
        for (let times = 0; times < 5; times++) {
          const cuts =
            times === 0
              ? []
              : Array.from({ length: times }, () => random.below(text.length)).sort((a, b) => a - b);
          const pieces = [...cuts, text.length].map((cut, at) => text.slice(cuts[at - 1] ?? 0, cut));
          statuses.add((await service.raw(pieces, /\}\s*$/)).slice(0, 12));
        }
        if (statuses.size > 1 || ![...statuses][0]?.includes('200'))
          found.push(`${frontEnd}: ${size} bytes of headers, in pieces: ${[...statuses].join(' or ')}`);
      }
      let unread = 0;
      for (let times = 0; times < 12; times++)
        await service
          .post('/verify', `"${'x'.repeat(4_000_000)}"`)
          .then(async (answer) => {
            await answer.text();
            if (answer.status !== 413) unread++;
          })
          .catch(() => unread++);
      if (unread > 0)
        found.push(`${frontEnd}: ${unread} of 12 clients could not read why their body was refused`);
      await service.stop();
    }
    return found;
  },
};
