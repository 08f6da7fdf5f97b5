import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createMemoryReplayStore } from '../../src/middleware/index.js';
import { encode, liveCall, liveChain, now, OPEN } from './call.js';
import { send, type RawAnswer } from './http.js';
import { SHAPES, type Served } from './shapes.js';
import { SOURCES } from './sources.js';

const type = (value: string) => ['Content-Type', value] as const;
const JSON_TYPE = type('application/json');
const args = { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 };
const chain = liveChain();
const good = JSON.stringify(args);

interface Sent {
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | Buffer | readonly string[];
}

/** A request for a body, with the bundle for a call. */
const ask = (body: Sent['body'], bundle: object = liveCall(chain, args), ...more: Sent['headers']): Sent => ({
  headers: [['X-DRS-Bundle', encode(bundle)], ...(more.length === 0 ? [JSON_TYPE] : more)],
  body,
});
const asTyped = (body: Sent['body'], value: string) => ask(body, liveCall(chain, args), type(value));
/** A request with these values in the place of the bundle. */
const carry = (...values: string[]): Sent => ({
  headers: [...values.map((value) => ['X-DRS-Bundle', value] as const), JSON_TYPE],
  body: good,
});
const once = () => encode(liveCall(chain, args));
const signedBy = (other: ReturnType<typeof liveChain>) =>
  liveCall({ ...chain, parties: other.parties }, args, {
    iss: chain.parties.at(-1)?.did,
    sub: chain.parties[0]?.did,
  });
const FORM = 'application/x-www-form-urlencoded';

/** What must never reach a handler: by what the answer must say, status first. */
const code = (status: number, name: string, says = '', more: object = {}) =>
  [status, { ...more, error: { code: name, message: expect.stringContaining(says) as string } }] as const;
const invalid = (name: string, status = 403) => code(status, name, '', { valid: false });
const unbound = (binding: string) => code(403, 'BINDING_MISMATCH', '', { valid: true, binding });
type Row = readonly [status: number, body: object, sent: Record<string, () => Sent>];
const ROWS: readonly Row[] = [
  [
    ...code(401, 'MISSING_BUNDLE', 'X-DRS-Bundle'),
    { 'no bundle': () => ({ headers: [JSON_TYPE], body: good }) },
  ],
  [
    ...code(400, 'MULTIPLE_BUNDLES'),
    {
      'the header given twice': () => carry(once(), once()),
      'two values joined by a comma': () => carry(`${once()},${once()}`),
    },
  ],
  [...code(400, 'MALFORMED_BUNDLE'), { 'an empty header': () => carry('') }],
  [...code(400, 'MALFORMED_BUNDLE', 'base64url'), { 'bad base64url': () => carry(`${once()}!`) }],
  [...code(400, 'MALFORMED_BUNDLE', 'JSON'), { 'bad JSON': () => carry(encode('{"receipts":')) }],
  [...invalid('MALFORMED_BUNDLE'), { 'JSON that is no bundle': () => ask(good, []) }],
  [
    ...invalid('CHAIN_BREAK'),
    {
      'an invalid chain': () =>
        ask(good, liveCall({ ...chain, receipts: chain.receipts.toReversed() }, args)),
    },
  ],
  [
    ...invalid('INVALID_INVOCATION_SIGNATURE'),
    { 'a signature of another key': () => ask(good, signedBy(liveChain())) },
  ],
  [
    ...invalid('EXPIRED'),
    { 'an expired chain': () => ask(good, liveCall(liveChain(3, { exp: now() - 1 }), args)) },
  ],
  [
    ...invalid('POLICY_VIOLATION'),
    { 'a tool that is not allowed': () => ask('{"tool":"delete"}', liveCall(chain, { tool: 'delete' })) },
  ],
  [
    ...code(403, 'TOOL_MISMATCH'),
    { 'the tool of another route': () => ask('{"tool":"fetch"}', liveCall(chain, { tool: 'fetch' })) },
  ],
  [
    ...unbound('mismatch'),
    {
      'the body changed after signing': () => ask(JSON.stringify({ ...args, query: 'coffee' })),
      'the tool swapped': () => ask(JSON.stringify({ ...args, tool: 'fetch' })),
      'an extra argument': () => ask(JSON.stringify({ ...args, limit: 10 })),
      'no body': () => ask(''),
      'a bundle that names its own body': () =>
        ask('{"tool":"fetch"}', { ...liveCall(chain, args), body: args }),
    },
  ],
  [
    ...unbound('invalid_body'),
    {
      'an argument named tool beside the tool': () => ask(good.replace('{', '{"tool":"fetch",')),
      'a number beyond 2^53': () =>
        ask(
          '{"tool":"search","n":9007199254740993}',
          liveCall(chain, { tool: 'search', n: 9007199254740992 }),
        ),
      'a body that is no JSON': () => ask('tool=search'),
      'a body that ends the member it is sent in': () => ask(`${good},"receipts":[]`),
      'a body in UTF-16': () => asTyped(Buffer.from(good, 'utf16le'), 'application/json; charset=utf-16le'),
      'a body that is other arguments in UTF-7': () => {
        const hidden = { tool: 'search', query: '+ACIALAAiAHQAbwBvAGwAIgA6ACIAZABlAGwAZQB0AGU-' };
        const sent = type('application/json; charset=utf-7');
        return ask(JSON.stringify(hidden), liveCall(chain, hidden), sent);
      },
      'a body that is a form to its parser': () => asTyped(good, FORM),
      'a plain text': () => asTyped(good, 'text/plain'),
      'a compressed body': () => ask(good, liveCall(chain, args), JSON_TYPE, ['Content-Encoding', 'gzip']),
      'a body that is not UTF-8': () =>
        ask(Buffer.concat([Buffer.from(good.slice(0, -1)), Buffer.from([0xff, 0x7d])])),
      'a body with a byte order mark': () => ask(`\uFEFF${good}`),
      'a bundle that names its own body, beside a form': () =>
        ask('tool=fetch', { ...liveCall(chain, args), body: args }, type(FORM)),
    },
  ],
  [
    ...invalid('INVOCATION_STALE', 409),
    {
      'a stale invocation': () => ask(good, liveCall(chain, args, { iat: now() - 901 })),
      'an invocation from the future': () => ask(good, liveCall(chain, args, { iat: now() + 120 })),
    },
  ],
  [
    ...code(413, 'BODY_TOO_LARGE'),
    {
      'a larger body than is read': () => ask(`{"tool":"${'x'.repeat(20_000)}"}`),
      'a large body in pieces': () => ask(['x'.repeat(9000), 'x'.repeat(9000)]),
    },
  ],
];
const ATTACKS = ROWS.flatMap(([status, body, sent]) =>
  Object.entries(sent).map(([name, request]) => ({ name, request, status, body })),
);

// Where a verdict comes from makes no difference to a shape: with one source all are tried, with the others one.
describe.each(SOURCES)('with verdicts %s', (source, open) => {
  let opened: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(() => opened.close());

  const shapes = source === 'in this thread' ? SHAPES : SHAPES.slice(0, 1);
  describe.each(shapes)('%s', (_, serve) => {
    let server: Served;
    let runs = 0;
    const asked = ({ headers, body }: Sent): Promise<RawAnswer> => send(server.url, headers, body);
    beforeAll(async () => {
      const replayStore = createMemoryReplayStore();
      const options = { ...opened.source, ...OPEN, tool: 'search', replayStore, maxBodyBytes: 16_384 };
      server = await serve(options, () => runs++);
    });
    afterAll(() => server.close());
    beforeEach(() => {
      runs = 0;
    });

    it('hands a verified call to its handler, with its body and context', async () => {
      const drs = { root_principal: chain.parties[0]?.did, agent: chain.parties.at(-1)?.did };
      expect(await asked(ask(good))).toMatchObject({
        status: 200,
        body: { got: args, drs: { ...drs, tool: 'search', binding: 'match' }, same: true },
      });
      expect(runs).toBe(1);
    });

    it('hands on a body that comes in pieces', async () => {
      const large = { ...args, text: 'é'.repeat(2000) };
      const pieces = JSON.stringify(large).match(/.{1,999}/gs) ?? [];
      expect(await asked(ask(pieces, liveCall(chain, large)))).toMatchObject({ body: { got: large } });
    });

    it('accepts padding, and a charset of UTF-8', async () => {
      const value = once();
      const padded = value.padEnd(Math.ceil(value.length / 4) * 4, '=');
      const headers = [['X-DRS-Bundle', padded], type('application/json; charset="UTF-8"')] as const;
      expect(await asked({ headers, body: good })).toMatchObject({ status: 200 });
    });

    it.each(ATTACKS)('refuses $name', async ({ request, status, body }) => {
      const answer = await asked(request());
      expect(answer).toMatchObject({ status, body });
      expect(answer.headers['content-type']).toContain('application/json');
      expect(answer.headers['www-authenticate']).toBe(status === 401 ? 'DRS' : undefined);
      expect(runs).toBe(0);
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
      expect(await asked(request)).toMatchObject({ status: 409, body: invalid('REPLAY_DETECTED', 409)[1] });
    });
  });
});
