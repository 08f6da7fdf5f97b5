import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { createConsent, generateKey, issueRootDelegation } from '../../src/issue/index.js';
import { createMemoryReplayStore, signFetch, type SignFetchOptions } from '../../src/middleware/index.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';
import { send, type RawAnswer } from './http.js';
import { SHAPES } from './shapes.js';

/** Issue 29 item 13: the second carrier of plain HTTP, in tool servers with the header limits that they have by default. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const TYPE = 'application/drs-call+json';
const chain = liveChain(2);
const args = { tool: 'search', query: 'tea' };
const bundleFor = (signed: object = args) => encode(liveCall(chain, signed));
const envelope = (body: unknown = args, signed: object = args) =>
  JSON.stringify({ bundle: bundleFor(signed), body });
const typed = (type = TYPE) => ['Content-Type', type] as const;

const ROWS: readonly (readonly [
  name: string,
  body: () => string | Buffer,
  status: number,
  code: string,
  type?: string,
])[] = [
  ['another body', () => envelope({ ...args, query: 'gold' }), 403, 'BINDING_MISMATCH'],
  ['another tool', () => envelope({ tool: 'fetch' }, { tool: 'fetch' }), 403, 'TOOL_MISMATCH'],
  ['a further member', () => envelope().replace('{', '{"role":"admin",'), 400, 'MALFORMED_BUNDLE'],
  ['two bundles', () => envelope().replace('{', `{"bundle":"${bundleFor()}",`), 400, 'MALFORMED_BUNDLE'],
  ['two bodies', () => envelope().replace('{', '{"body":{"tool":"x"},'), 400, 'MALFORMED_BUNDLE'],
  ['an argument twice', () => envelope().replace('"query"', '"query":"x","query"'), 400, 'MALFORMED_BUNDLE'],
  ['no bundle', () => JSON.stringify({ body: args }), 400, 'MALFORMED_BUNDLE'],
  [
    'bytes that are not UTF-8',
    () => Buffer.from(envelope().replace('tea', 'té'), 'latin1'),
    400,
    'MALFORMED_BUNDLE',
  ],
  ['nothing', () => '', 400, 'MALFORMED_BUNDLE'],
  ['an envelope in it', () => envelope(JSON.parse(envelope())), 403, 'BINDING_MISMATCH'],
  ['too much', () => envelope({ ...args, text: 'x'.repeat(3 * 1024 * 1024) }), 413, 'BODY_TOO_LARGE'],
  ['the type of JSON', envelope, 401, 'MISSING_BUNDLE', 'application/json'],
  ['another charset', envelope, 401, 'MISSING_BUNDLE', `${TYPE}; charset=utf-16`],
  ['another parameter', envelope, 401, 'MISSING_BUNDLE', `${TYPE}; version=2`],
];

type Header = readonly [string, string];

describe.each(SHAPES)('%s', (name, serve) => {
  const open = async (more: object = {}) => {
    let runs = 0;
    const replayStore = createMemoryReplayStore();
    const options = { verifier, ...OPEN, replayStore, tool: 'search', maxBodyBytes: 3_000_000, ...more };
    const served = await serve(options, () => runs++);
    closing.push(() => served.close());
    const { url } = served;
    const post = (body: string | Buffer, ...headers: Header[]) => send(url, headers, body);
    return { url, runs: () => runs, send: post };
  };
  const isNode = ['node:http', 'Express', 'Fastify'].includes(name);

  const expectUnwrapped = ({ status, body }: RawAnswer, got: unknown, binding: string | null = 'match') => {
    const length = String(Buffer.byteLength(JSON.stringify(got)));
    const headers = { type: 'application/json', length };
    const drs = { agent: chain.parties.at(-1)?.did, ...(binding === null ? {} : { binding }) };
    expect([status, body]).toMatchObject([200, { got, drs, headers, same: true }]);
    expect((body as { headers: object }).headers).toEqual(headers);
    if (!isNode) return;
    expect(body).toMatchObject({
      raw: ['content-type: application/json', `content-length: ${length}`],
      distinct: [['application/json'], [length], null],
    });
  };

  it('hands on what is in an envelope, as if it had been sent as JSON', async () => {
    const { send: post, runs } = await open();
    expectUnwrapped(await post(envelope(), typed()), args);
    expectUnwrapped(await post(envelope(), typed('Application/DRS-Call+JSON; charset=UTF-8')), args);
    expect(runs()).toBe(2);
  });

  it('does so with one that comes in pieces, without a length', async () => {
    const { url } = await open();
    const large = { ...args, text: 'é'.repeat(2000) };
    const pieces = envelope(large, large).match(/.{1,999}/gs) ?? [];
    expectUnwrapped(await send(url, [typed()], pieces), large);
  });

  it('takes the same bundle in the header too, and no other', async () => {
    const { send: post } = await open();
    const bundle = bundleFor();
    const body = JSON.stringify({ bundle, body: args });
    expect(await post(body, typed(), ['X-DRS-Bundle', bundleFor()])).toMatchObject({
      ...{ status: 400, body: { error: { code: 'MULTIPLE_BUNDLES' } } },
    });
    expectUnwrapped(await post(body, typed(), ['X-DRS-Bundle', bundle]), args);
    expect(await post(body, typed())).toMatchObject({ body: { error: { code: 'REPLAY_DETECTED' } } });
  });

  it.each(ROWS.map(([what, ...row]) => [what, row] as const))('refuses %s', async (_, row) => {
    const [body, status, code, type] = row;
    const { send: post, runs } = await open();
    expect(await post(body(), typed(type))).toMatchObject({ status, body: { error: { code } } });
    expect(runs()).toBe(0);
  });

  it('refuses a malformed one where requests without a bundle pass', async () => {
    const { send: post, runs } = await open({ optional: true });
    expect(await post('{"body":{}}', typed())).toMatchObject({
      body: { error: { code: 'MALFORMED_BUNDLE' } },
    });
    expect(runs()).toBe(0);
  });

  it('hands it on where the binding is off, and on trial without a context', async () => {
    const other = { ...args, query: 'gold' };
    const { send: post } = await open({ bindingMode: 'off' });
    expectUnwrapped(await post(envelope(other), typed()), other, null);
    const trial = await open({ mode: 'observe' });
    expect(await trial.send(envelope(other), typed())).toMatchObject({ status: 200 });
    expect(trial.runs()).toBe(1);
  });

  it('takes an envelope as arguments where it was signed as such', async () => {
    const { send: post } = await open({ tool: 'any' });
    const nested = { tool: 'search', ...(JSON.parse(envelope()) as object) };
    expectUnwrapped(await post(envelope(nested, nested), typed()), nested);
  });

  it('compares it together with the parameters of the route', async () => {
    const { url } = await open({ parameters: () => ({ lines: '10' }) });
    expectUnwrapped(
      await send(`${url}/?lines=10`, [typed()], envelope(args, { ...args, lines: '10' })),
      args,
    );
    expect(await send(`${url}/?lines=10`, [typed()], envelope())).toMatchObject({
      body: { error: { code: 'BINDING_MISMATCH' } },
    });
  });

  it('takes 200 kB of arguments with the usual limits on headers, from signFetch', async () => {
    const { url } = await open({ serverIdentity: 'https://tools.example' });
    const large = { ...args, text: 'x'.repeat(200_000) };
    const call = (options: SignFetchOptions) =>
      signFetch(delegation, options)(url, { method: 'POST', body: JSON.stringify(large) });
    for (const options of [{}, { carrier: 'header' } as const])
      await expect(call(options)).rejects.toThrow(
        "headers have at most 60000; send less, or a body with the option carrier: 'auto'",
      );
    for (const carrier of ['envelope', 'auto'] as const) {
      const answer = await call({ carrier });
      expect([answer.status, await answer.json()]).toMatchObject([200, { got: large }]);
    }
  });
});

const [person, agent] = [generateKey(), generateKey()];
const delegation = {
  key: agent,
  chain: [
    await issueRootDelegation({
      ...{ key: person, audience: agent.did, command: '/tools', policy: { allowed_tools: ['search'] } },
      consent: createConsent({ text: 'Search.', locale: 'en', method: 'explicit-ui-click' }),
    }),
  ],
  toolServer: 'https://tools.example',
};

describe('signFetch', () => {
  const sent = async (options: SignFetchOptions, size: number) => {
    let request: Request | undefined;
    const record: typeof fetch = (input, init) => {
      request = new Request(input, init);
      return Promise.resolve(new Response());
    };
    const body = `{ "tool": "search", "text": "${'x'.repeat(size)}" }`;
    const headers = {
      'Content-Type': 'application/json; charset=utf-8',
      'X-Own': '1',
      'X-DRS-Bundle': 'old',
    };
    const call = signFetch(delegation, { ...options, fetch: record });
    await call('https://tools.example/', { method: 'POST', headers, body });
    const { headers: own } = request as Request;
    const text = await (request as Request).text();
    expect(own.get('x-own')).toBe('1');
    const isEnvelope = own.get('content-type') === TYPE;
    if (isEnvelope) {
      expect(own.has('x-drs-bundle')).toBe(false);
      expect(text).toMatch(/^\{"bundle":"[\w-]+","body":\{ "tool": "search"/);
    } else expect([own.get('content-type'), text]).toEqual(['application/json; charset=utf-8', body]);
    return { isEnvelope, bundle: own.get('x-drs-bundle') ?? (JSON.parse(text) as { bundle: string }).bundle };
  };

  it('uses the envelope where it is told, and with auto for a bundle of more than 4,096 characters', async () => {
    expect((await sent({}, 5000)).isEnvelope).toBe(false);
    expect((await sent({ carrier: 'header' }, 5000)).isEnvelope).toBe(false);
    expect((await sent({ carrier: 'envelope' }, 0)).isEnvelope).toBe(true);
    const { isEnvelope, bundle } = await sent({ carrier: 'auto' }, 0);
    expect(isEnvelope).toBe(false);
    for (let size = 0, length = bundle.length; length <= 4100; size += 1) {
      // Nearly 1.78 characters for each byte.
      size += Math.max(0, Math.floor((4080 - length) / 1.78));
      const next = await sent({ carrier: 'auto' }, size);
      length = next.bundle.length;
      expect(next.isEnvelope).toBe(length > 4096);
    }
  });

  it('knows no other carrier', () => {
    expect(() => signFetch(delegation, { carrier: '_meta' as never })).toThrow('carrier is "_meta"');
  });
});
