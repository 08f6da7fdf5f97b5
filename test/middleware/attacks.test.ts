import express from 'express';
import { Hono } from 'hono';
import { getRequestListener } from '@hono/node-server';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  createMemoryReplayStore,
  drsContext,
  drsFetch,
  drsMiddleware,
  type NodeMiddlewareOptions,
} from '../../src/middleware/index.js';
import { encode, liveCall, liveChain, now, OPEN_ROUTE } from './call.js';
import { listen, send, type RawAnswer, type TestServer } from './http.js';
import { SOURCES } from './sources.js';

const JSON_TYPE = ['Content-Type', 'application/json'] as const;
const args = { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 };
const chain = liveChain();

interface Sent {
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | Buffer;
}

/** A request for a body, with the bundle for a call. */
const ask = (
  body: string | Buffer,
  bundle: object = liveCall(chain, args),
  more: Sent['headers'] = [JSON_TYPE],
): Sent => ({
  headers: [['X-DRS-Bundle', encode(bundle)], ...more],
  body,
});
const good = JSON.stringify(args);

/** What must never reach a handler: name, request, status, and what the answer must say. */
const ATTACKS: readonly (readonly [string, () => Sent, number, object])[] = [
  [
    'no bundle',
    () => ({ headers: [JSON_TYPE], body: good }),
    401,
    {
      error: { code: 'MISSING_BUNDLE', message: expect.stringContaining('X-DRS-Bundle') as string },
    },
  ],
  [
    'the header given twice',
    () => {
      const value = encode(liveCall(chain, args));
      return { headers: [['X-DRS-Bundle', value], ['X-DRS-Bundle', value], JSON_TYPE], body: good };
    },
    400,
    { error: { code: 'MULTIPLE_BUNDLES' } },
  ],
  [
    'two values joined by a comma',
    () => {
      const value = encode(liveCall(chain, args));
      return { headers: [['X-DRS-Bundle', `${value},${value}`], JSON_TYPE], body: good };
    },
    400,
    { error: { code: 'MULTIPLE_BUNDLES' } },
  ],
  [
    'an empty header',
    () => ({ headers: [['X-DRS-Bundle', ''], JSON_TYPE], body: good }),
    400,
    { error: { code: 'MALFORMED_BUNDLE' } },
  ],
  [
    'bad base64url',
    () => ({ headers: [['X-DRS-Bundle', `${encode(liveCall(chain, args))}!`], JSON_TYPE], body: good }),
    400,
    { error: { code: 'MALFORMED_BUNDLE', message: expect.stringContaining('base64url') as string } },
  ],
  [
    'bad JSON',
    () => ({ headers: [['X-DRS-Bundle', encode('{"receipts":')], JSON_TYPE], body: good }),
    400,
    { error: { code: 'MALFORMED_BUNDLE', message: expect.stringContaining('JSON') as string } },
  ],
  ['JSON that is no bundle', () => ask(good, []), 403, { valid: false, error: { code: 'MALFORMED_BUNDLE' } }],
  [
    'an invalid chain',
    () => ask(good, liveCall({ ...chain, receipts: chain.receipts.toReversed() }, args)),
    403,
    { valid: false, error: { code: 'CHAIN_BREAK' } },
  ],
  [
    'a signature of another key',
    () =>
      ask(
        good,
        liveCall({ ...chain, parties: liveChain().parties }, args, {
          iss: chain.parties.at(-1)?.did,
          sub: chain.parties[0]?.did,
        }),
      ),
    403,
    { valid: false, error: { code: 'INVALID_INVOCATION_SIGNATURE' } },
  ],
  [
    'an expired chain',
    () => ask(good, liveCall(liveChain(3, { exp: now() - 1 }), args)),
    403,
    { valid: false, error: { code: 'EXPIRED' } },
  ],
  [
    'a tool that is not allowed',
    () => ask(JSON.stringify({ tool: 'delete' }), liveCall(chain, { tool: 'delete' })),
    403,
    { valid: false, error: { code: 'POLICY_VIOLATION' } },
  ],
  [
    'the body changed after signing',
    () => ask(JSON.stringify({ ...args, query: 'coffee' })),
    403,
    { valid: true, binding: 'mismatch', error: { code: 'BINDING_MISMATCH' } },
  ],
  [
    'the tool swapped',
    () => ask(JSON.stringify({ ...args, tool: 'fetch' })),
    403,
    { valid: true, binding: 'mismatch', error: { code: 'BINDING_MISMATCH' } },
  ],
  [
    'an extra argument',
    () => ask(JSON.stringify({ ...args, limit: 10 })),
    403,
    { valid: true, binding: 'mismatch', error: { code: 'BINDING_MISMATCH' } },
  ],
  [
    'an argument named tool beside the tool',
    () => ask(good.replace('{', '{"tool":"fetch",')),
    403,
    { valid: true, binding: 'invalid_body', error: { code: 'BINDING_MISMATCH' } },
  ],
  [
    'a number beyond 2^53',
    () =>
      ask('{"tool":"search","n":9007199254740993}', liveCall(chain, { tool: 'search', n: 9007199254740992 })),
    403,
    { valid: true, binding: 'invalid_body', error: { code: 'BINDING_MISMATCH' } },
  ],
  ['no body', () => ask(''), 403, { valid: true, binding: 'mismatch' }],
  ['a body that is no JSON', () => ask('tool=search'), 403, { valid: true, binding: 'invalid_body' }],
  [
    'a body that ends the member it is sent in',
    () => ask(`${good},"receipts":[]`),
    403,
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'a body in UTF-16',
    () =>
      ask(Buffer.from(good, 'utf16le'), undefined, [['Content-Type', 'application/json; charset=utf-16le']]),
    403,
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'a body that is other arguments in UTF-7',
    () => {
      const hidden = { tool: 'search', query: '+ACIALAAiAHQAbwBvAGwAIgA6ACIAZABlAGwAZQB0AGU-' };
      return ask(JSON.stringify(hidden), liveCall(chain, hidden), [
        ['Content-Type', 'application/json; charset=utf-7'],
      ]);
    },
    403,
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'a body that is a form to its parser',
    () => ask(good, undefined, [['Content-Type', 'application/x-www-form-urlencoded']]),
    403,
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'a body that is not UTF-8',
    () => ask(Buffer.concat([Buffer.from(good.slice(0, -1)), Buffer.from([0xff, 0x7d])])),
    403,
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'a body with a byte order mark',
    () => ask(`\uFEFF${good}`),
    403,
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'a bundle that names its own body',
    () => ask('{"tool":"fetch"}', { ...liveCall(chain, args), body: args }),
    403,
    { valid: true, binding: 'mismatch' },
  ],
  [
    'a bundle that names its own body, beside a form',
    () =>
      ask('tool=fetch', { ...liveCall(chain, args), body: args }, [
        ['Content-Type', 'application/x-www-form-urlencoded'],
      ]),
    403,
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'a stale invocation',
    () => ask(good, liveCall(chain, args, { iat: now() - 901 })),
    409,
    { valid: false, error: { code: 'INVOCATION_STALE' } },
  ],
  [
    'an invocation from the future',
    () => ask(good, liveCall(chain, args, { iat: now() + 120 })),
    409,
    { valid: false, error: { code: 'INVOCATION_STALE' } },
  ],
  [
    'a larger body than is read',
    () => ask(`{"tool":"${'x'.repeat(20_000)}"}`),
    413,
    { error: { code: 'BODY_TOO_LARGE' } },
  ],
];

type Options = NodeMiddlewareOptions & { readonly tool: string };
/** Every shape of server: the handler answers with what it got, and with who is behind the call. */
const SHAPES: readonly (readonly [string, (options: Options, ran: () => void) => Promise<TestServer>])[] = [
  [
    'node:http',
    (options, ran) => {
      const drs = drsMiddleware(options);
      return listen((req, res) => {
        drs(req, res, () => {
          ran();
          const chunks: Buffer[] = [];
          req.on('data', (chunk: Buffer) => chunks.push(chunk));
          req.on('end', () => {
            const got = JSON.parse(Buffer.concat(chunks).toString()) as unknown;
            res.end(JSON.stringify({ got, principal: drsContext(req).root_principal }));
          });
        });
      });
    },
  ],
  [
    'Express',
    (options, ran) => {
      const app = express();
      app.post('/', drsMiddleware(options), express.json(), (req, res) => {
        ran();
        res.json({ got: req.body as unknown, principal: drsContext(req).root_principal });
      });
      return listen(app);
    },
  ],
  [
    'Hono',
    (options, ran) => {
      const app = new Hono();
      const handler = drsFetch(options as never, async (request) => {
        ran();
        return Response.json({ got: await request.json(), principal: drsContext().root_principal });
      });
      app.post('/', (c) => handler(c.req.raw));
      const listener = getRequestListener(app.fetch);
      return listen((req, res) => void listener(req, res));
    },
  ],
];

describe.each(SOURCES)('with verdicts %s', (_, open) => {
  let opened: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(() => opened.close());

  describe.each(SHAPES)('%s', (__, start) => {
    let server: TestServer;
    let runs = 0;
    const asked = ({ headers, body }: Sent): Promise<RawAnswer> => send(server.url, headers, body);
    beforeAll(async () => {
      const options: Options = {
        ...opened.source,
        ...OPEN_ROUTE,
        replayStore: createMemoryReplayStore(),
        maxBodyBytes: 16_384,
      };
      server = await start(options, () => runs++);
    });
    afterAll(() => server.close());
    beforeEach(() => {
      runs = 0;
    });

    it('hands a verified call to its handler, with its body and context', async () => {
      const answer = await asked(ask(good));
      expect(answer).toMatchObject({ status: 200, body: { got: args, principal: chain.parties[0]?.did } });
      expect(runs).toBe(1);
    });

    it('accepts padding, and a charset of UTF-8', async () => {
      const value = encode(liveCall(chain, args));
      const padded = value.padEnd(Math.ceil(value.length / 4) * 4, '=');
      const headers = [
        ['X-DRS-Bundle', padded],
        ['Content-Type', 'application/json; charset="UTF-8"'],
      ] as const;
      expect(await asked({ headers, body: good })).toMatchObject({ status: 200 });
    });

    it.each(ATTACKS)('refuses %s', async (_name, request, status, body) => {
      const answer = await asked(request());
      expect(answer).toMatchObject({ status, body });
      expect(answer.headers['content-type']).toContain('application/json');
      expect(answer.headers['www-authenticate']).toBe(status === 401 ? 'DRS' : undefined);
      expect(runs).toBe(0);
    });

    it('refuses a replay', async () => {
      const request = ask(good);
      expect(await asked(request)).toMatchObject({ status: 200 });
      expect(await asked(request)).toMatchObject({
        status: 409,
        body: { valid: false, error: { code: 'REPLAY_DETECTED' } },
      });
      expect(runs).toBe(1);
    });

    it('does not use up an invocation by a call that it refuses', async () => {
      const bundle = liveCall(chain, args);
      expect(await asked(ask('{"tool":"fetch"}', bundle))).toMatchObject({ status: 403 });
      expect(await asked(ask(good, bundle))).toMatchObject({ status: 200 });
    });

    it('serves the same invocation once, however many come at once', async () => {
      const request = ask(good);
      const answers = await Promise.all(Array.from({ length: 10 }, () => asked(request)));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      expect(runs).toBe(1);
    });
  });
});
