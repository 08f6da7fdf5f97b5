import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { Deadline, Exchanges } from '../../src/client/exchanges.js';
import { DrsClient, type DrsClientError, type DrsClientOptions } from '../../src/client/index.js';
import { openTransport } from '../../src/client/transport-node.js';
import { listen } from '../middleware/http.js';
import { eventually } from '../support/eventually.js';

/** A request that a service has received whole. */
interface Request {
  readonly type: string | undefined;
  readonly lines: readonly string[];
  readonly isGone: boolean;
  readonly answer: (status: number, body: string) => void;
  /** Answers each line with a verdict that says which call it was. */
  readonly answerAll: () => void;
  readonly destroy: () => void;
}

const verdict = (line: string) => {
  const { call } = JSON.parse(line) as { call: unknown };
  return JSON.stringify({
    valid: true,
    context: { root_principal: `did:key:${String(call)}`, chain_depth: 1, leaf_policy: {} },
  });
};

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

/** A service that answers when the test says so, or else each request as `answering` does. */
async function start(answering?: (request: Request) => void) {
  const requests: Request[] = [];
  const take = async (req: IncomingMessage, res: ServerResponse) => {
    let isGone = false;
    res.on('close', () => (isGone = !res.writableFinished));
    const lines = (await text(req)).split('\n');
    const answer = (status: number, body: string) => void res.writeHead(status).end(body);
    const request: Request = {
      type: req.headers['content-type'],
      lines,
      get isGone() {
        return isGone;
      },
      answer,
      answerAll: () => answer(200, lines.map((line) => `${verdict(line)}\n`).join('')),
      destroy: () => res.destroy(),
    };
    requests.push(request);
    answering?.(request);
  };
  const server = await listen((req, res) => void take(req, res));
  closing.push(server);
  const open = (options: DrsClientOptions = {}) => {
    // Only where a test is about time may a call run out of it.
    const client = new DrsClient(server.url, { timeoutMs: 60_000, ...options });
    closing.push(client);
    return { client, ask: askerOf(client) };
  };
  const shared = new Exchanges(openTransport(new URL(`${server.url}/verify`), 1), 1, true);
  /** Over one connection, with a time for each call. */
  const share = async (call: number, ms: number) => {
    const deadline = new Deadline(ms);
    return shared.post(`{"call":${call}}`, deadline).finally(() => deadline.clear());
  };
  return { requests, url: server.url, open, share };
}

/** Asks for each call; the result is who the verdict is about, or the code of the error. */
const askerOf =
  (client: DrsClient) =>
  (...calls: number[]) =>
    Promise.all(
      calls.map((call) =>
        client.verify({ call }).then(
          (given) => (given.valid ? given.context.root_principal : given.error.code),
          (error: unknown) => (error as DrsClientError).code,
        ),
      ),
    );
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at);
const own = (calls: readonly number[]) => calls.map((call) => `did:key:${call}`);

describe.each([
  ['a pool', {}],
  ['fetch', { fetch: globalThis.fetch }],
])('calls over %s', (_, transport: DrsClientOptions) => {
  it('go at once while there is room, and then together, each with its own verdict', async () => {
    const { requests, open } = await start();
    const { ask } = open(transport);
    const alone: Promise<unknown>[] = [];
    for (const call of range(0, 4)) {
      alone.push(ask(call));
      await eventually(() => expect(requests).toHaveLength(call + 1));
    }
    const fifth = ask(4);
    // If there were room, it would have been sent by then.
    await setImmediate();
    const others = ask(...range(5, 20));
    requests[0]?.answerAll();
    await eventually(() => expect(requests).toHaveLength(5));
    for (const { answerAll } of requests.slice(1)) answerAll();
    expect([...(await fifth), ...(await others)]).toEqual(own(range(4, 20)));
    expect(await Promise.all(alone)).toEqual(range(0, 4).map((call) => own([call])));
    const one = ['application/json', 1];
    expect(requests.map(({ type, lines }) => [type, lines.length])).toEqual([
      ...[one, one, one, one],
      ['application/x-ndjson', 16],
    ]);
  });

  it('that are made in one turn go together, as many as an exchange may have', async () => {
    const { requests, open } = await start((request) => request.answerAll());
    expect(await open(transport).ask(...range(0, 100))).toEqual(own(range(0, 100)));
    expect(requests.map(({ lines }) => lines.length).toSorted((a, b) => a - b)).toEqual([36, 64]);
  });

  it('go without a limit of connections', async () => {
    const { open } = await start((request) => request.answerAll());
    expect(await open({ ...transport, connections: 0 }).ask(1, 2)).toEqual(own([1, 2]));
  });

  it('fail together with the connection', async () => {
    const { requests, open } = await start((request) => request.destroy());
    expect(await open(transport).ask(1, 2, 3)).toEqual(Array(3).fill('interrupted'));
    expect(requests).toHaveLength(1);
  });

  it('are aborted when nobody waits for them any more', async () => {
    const { requests, open } = await start();
    const { ask } = open({ ...transport, timeoutMs: 50 });
    // Again if the time was over before they were sent. Those of an earlier time may arrive meanwhile.
    while (requests.length === 0) expect(await ask(1, 2)).toEqual(['timeout', 'timeout']);
    await eventually(() => expect(requests.filter(({ isGone }) => !isGone)).toEqual([]));
  });
});

describe('a call among others', () => {
  it('has its own status and its own retries', async () => {
    let isFirst = true;
    const { requests, open } = await start(({ lines, answer, answerAll }) => {
      if (!isFirst) {
        answerAll();
        return;
      }
      isFirst = false;
      const busy = '{"error":"overloaded","status":503,"retry_after":0}';
      const [one = '', , , four = ''] = lines;
      answer(200, [verdict(one), busy, '{"status":413,"error":"too large"}', verdict(four)].join('\n'));
    });
    expect(await open().ask(1, 2, 3, 4)).toEqual(['did:key:1', 'did:key:2', 'rejected', 'did:key:4']);
    expect(requests.map(({ lines }) => lines.length)).toEqual([4, 1]);
  });

  it('that runs out of time leaves the others alone', async () => {
    const { requests, share } = await start();
    const [hasty, patient] = [share(1, 20), share(2, 60_000)];
    await expect(hasty).rejects.toThrow('the time is over');
    await eventually(() => expect(requests).toHaveLength(1));
    expect(requests[0]?.isGone).toBe(false);
    requests[0]?.answerAll();
    expect(await patient).toMatchObject({ status: 200, text: verdict('{"call":2}') });
  });

  it('that runs out of time before it goes out is not sent', async () => {
    const { requests, share } = await start();
    const first = share(1, 60_000);
    await eventually(() => expect(requests).toHaveLength(1));
    const [hasty, patient] = [share(2, 20), share(3, 60_000)];
    await expect(hasty).rejects.toThrow('the time is over');
    requests[0]?.answerAll();
    await eventually(() => expect(requests[1]?.lines).toEqual(['{"call":3}']));
    requests[1]?.answerAll();
    expect(await Promise.all([first, patient])).toHaveLength(2);
  });

  it('may have line feeds in its text', async () => {
    const { requests, open } = await start((request) => request.answerAll());
    const { client } = open();
    const bodyText = '{\n"n": 9007199254740993,\r\n"s": "\\n"}\n';
    const bundle = { call: 1 };
    await Promise.allSettled([client.verify(bundle, { bodyText }), client.verify(bundle)]);
    expect(requests[0]?.lines).toEqual([
      '{"call":1,"body":{ "n": 9007199254740993,\r "s": "\\n"} }',
      '{"call":1}',
    ]);
  });

  it('goes with so many others only as fit', async () => {
    const { requests, open } = await start((request) => request.answerAll());
    const { client } = open();
    const sizes = [300_000, ...Array<number>(6).fill(60_000)];
    await Promise.all(sizes.map((size) => client.verify({ call: 1, padding: 'x'.repeat(size) })));
    expect(requests.map(({ lines }) => lines.length).toSorted()).toEqual([1, 2, 4]);
  });
});

describe('no verdict', () => {
  // The verdict of another call must never be taken for one's own.
  it.each([
    ['too few lines', ([, ...others]: readonly string[]) => others.join('\n')],
    ['too many lines', (lines: readonly string[]) => [...lines, lines[0]].join('\n')],
    ['a line that is empty', ([first, ...others]: readonly string[]) => [first, '', ...others].join('\n')],
    ['one verdict for all', ([first = '']: readonly string[]) => first],
    ['an empty answer', () => ''],
  ])('comes from %s', async (_, spoil) => {
    const { open } = await start(({ lines, answer }) => answer(200, spoil(lines.map(verdict))));
    expect(await open().ask(1, 2, 3)).toEqual(Array(3).fill('not_a_verdict'));
  });

  it('is said of the line alone that is none', async () => {
    const { open } = await start(({ lines: [line = ''], answer }) =>
      answer(200, `null\n${verdict(line)}\n[}`),
    );
    expect(await open().ask(1, 2, 3)).toEqual(['not_a_verdict', 'did:key:1', 'not_a_verdict']);
  });
});

describe('a service that takes fewer lines', () => {
  it('is asked one by one after a 413', async () => {
    const { requests, open } = await start((request) => {
      if (request.lines.length > 1) request.answer(413, '{"error":"no"}');
      else request.answerAll();
    });
    const { ask } = open();
    expect(await ask(1, 2, 3)).toEqual(own([1, 2, 3]));
    expect(await ask(4, 5, 6)).toEqual(own([4, 5, 6]));
    expect(requests.map(({ lines }) => lines.length)).toEqual([3, 1, 1, 1, 1, 1, 1]);
  });

  it('is asked one by one if the option says so', async () => {
    const { requests, open } = await start((request) => request.answerAll());
    expect(await open({ shareExchanges: false }).ask(1, 2, 3)).toEqual(own([1, 2, 3]));
    expect(requests.map(({ lines }) => lines.length)).toEqual([1, 1, 1]);
  });
});

it('a client that is closed answers what it was asked before', async () => {
  const { requests, url } = await start();
  const client = new DrsClient(url, { connections: 1, timeoutMs: 60_000 });
  const ask = askerOf(client);
  const first = ask(1);
  await eventually(() => expect(requests).toHaveLength(1));
  const [waiting, closed] = [ask(2, 3), client.close()];
  requests[0]?.answerAll();
  await eventually(() => expect(requests).toHaveLength(2));
  requests[1]?.answerAll();
  expect(await Promise.all([first, waiting])).toEqual([own([1]), own([2, 3])]);
  await closed;
  expect(await ask(4)).toEqual(['unreachable']);
});
