import fc from 'fast-check';
import sodium from 'libsodium-wrappers';
import { beforeAll, describe, expect, it } from 'vitest';
import { generateKey } from '../../src/issue/index.js';
import { toJson, type LocalRevocation } from '../../src/revocation/entry.js';
import { CATALOGUE, Failure } from '../../src/verify/codes.js';
import { causesOf, marksInJson, marksInJwt } from '../../web/inspect/cause.js';
import { pretty, withPayload } from '../../web/inspect/decode.js';
import { EXAMPLES, makeExample, type ExampleName } from '../../web/inspect/example.js';
import { inspect, ofNote, type Inspection, type Settings } from '../../web/inspect/inspect.js';
import { grantsOf } from '../../web/inspect/limits.js';
import { recognise, type Recognised } from '../../web/inspect/recognise.js';
import { FORMS, writeAs, type Form } from '../../web/inspect/share.js';
import { domainOf } from '../../web/inspect/time.js';

/** `EDITS=100000 npx vitest run test/inspect/edits.test.ts` searches longer. */
const EDITS = Number(process.env['EDITS'] ?? 1_000);
const NOW = 1_900_000_000;
const SETTINGS: Settings = {
  ...{ now: NOW, clockSkewSecs: 0, serverIdentity: '', trustedRoots: [], tools: [], requireBinding: false },
  ...{ revoked: new Set<number>(), entries: null, list: null, used: new Map(), countedAt: 'gate' },
};

let examples: Record<ExampleName, string>;
beforeAll(async () => {
  await sodium.ready;
  examples = Object.fromEntries(
    Object.keys(EXAMPLES).map((name) => [name, makeExample(name as ExampleName, sodium, NOW).input]),
  ) as Record<ExampleName, string>;
});

/** Everything that the page works out of a text. */
async function lookAt(text: string): Promise<{ recognised: Recognised; found: Inspection | null }> {
  const recognised = recognise(text);
  if (recognised.kind === 'refusal') return { recognised, found: ofNote(recognised.refusal) };
  if (recognised.kind !== 'bundle' && recognised.kind !== 'receipts') return { recognised, found: null };
  const given =
    recognised.kind === 'bundle'
      ? { bundle: recognised.bundle, body: recognised.body }
      : { bundle: { receipts: [...recognised.receipts] }, body: null };
  const found = await inspect(sodium, given, SETTINGS);
  const tokens = [...found.receipts, ...(found.invocation === null ? [] : [found.invocation])];
  grantsOf(found.receipts);
  domainOf(found.receipts, found.invocation, NOW);
  for (const form of Object.keys(FORMS) as Form[])
    writeAs(form, { ...given, found, settings: SETTINGS, page: 'file:///inspect.html' });
  for (const { path, part } of found.failure === null ? [] : causesOf(found.failure)) {
    for (const { jwt, text: payload } of tokens) {
      marksInJwt(jwt, part);
      const shown = pretty(payload ?? '');
      for (const { start, end } of marksInJson(shown, path, found.failure?.message)) {
        expect(start).toBeLessThanOrEqual(end);
        expect(end).toBeLessThanOrEqual(shown.length + 1);
      }
    }
  }
  return { recognised, found };
}

const edit = fc.record({
  from: fc.constantFrom(...(Object.keys(EXAMPLES) as ExampleName[]).filter((name) => name !== 'long')),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.constantFrom(0, 1, 2, 40, 4000),
  put: fc.oneof(
    fc.constantFrom(
      ...['', '"', '\\', '{', '}', '[', ']', ',', '.', '=', '\0', '\u{d800}', 'null', '-1', '1e999'],
      ...['__proto__', '</script>'],
    ),
    fc.string({ maxLength: 6 }),
  ),
  /** Whether a payload is edited, or the text as it was pasted. */
  within: fc.option(fc.nat({ max: 3 })),
});

describe('random edits', () => {
  it(
    `of a bundle, or of claims in it, never hang or throw: ${EDITS}`,
    async () => {
      const states = new Set<string>();
      await fc.assert(
        fc.asyncProperty(edit, async ({ from, at, length, put, within }) => {
          let text = examples[from];
          const cut = (whole: string) => {
            const start = Math.floor(at * whole.length);
            return whole.slice(0, start) + put + whole.slice(start + length);
          };
          if (within === null) text = cut(text);
          else {
            const bundle = JSON.parse(text) as { receipts: string[]; invocation: string };
            const jwt = bundle.receipts[within] ?? bundle.invocation;
            const payload = Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString();
            const edited = withPayload(jwt, cut(pretty(payload)));
            text = text.replace(jwt, edited);
          }
          const start = performance.now();
          const { recognised, found } = await lookAt(text);
          // A hang, not slowness: other tests run meanwhile.
          expect(performance.now() - start).toBeLessThan(20_000);
          states.add(found?.failure?.code ?? recognised.kind);
        }),
        { numRuns: EDITS },
      );
      expect(states.size).toBeGreaterThan(4);
    },
    180_000 + 20 * EDITS,
  );
});

it('says of what nests too deep that it does', async () => {
  const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  const { recognised } = await lookAt(`{"bundle_version":"4.0","receipts":[],"body":${deep(50_000)}}`);
  expect(recognised.kind).toBe('unknown');
  const bundle = JSON.parse(examples.valid) as { receipts: string[]; invocation: string };
  const claims = `{"policy":${deep(50_000)}}`;
  bundle.receipts[1] = withPayload(bundle.receipts[1] ?? '', claims);
  const { found } = await lookAt(JSON.stringify(bundle));
  expect(found?.failure?.code).toBe('MALFORMED_RECEIPT');
});

describe('a cause', () => {
  it('has a place in a receipt for every code that the content of a receipt can cause', () => {
    const codes = CATALOGUE.filter(({ block }) => 'ABCDE'.includes(block));
    const nowhere = codes.filter(({ code }) => {
      const details = { subject: 0, member: 'policy', reason: 'policy is null' };
      const [cause] = causesOf(new Failure(code, details));
      return cause === undefined || (cause.part === 'payload' && cause.path.length === 0);
    });
    expect(nowhere.map(({ code }) => code)).toEqual([]);
  });

  it.each([
    ['write_access', 'false: state it, or have the operator say what the tool does', 'write_access'],
    ['estimated_cost_usd', 'what max_cost_usd 5 allows: state it, or have the operator say', 'max_cost_usd'],
    ['resource_uri', 'what allowed_resources ["a"] allows, by what the operator says', 'allowed_resources'],
  ])('of a call that does not state %s is the limit, too', (member, expected, limit) => {
    const failure = new Failure('POLICY_VIOLATION', { subject: 1, member, claimed: undefined, expected });
    expect(causesOf(failure).map(({ subject, path }) => [subject, path.join('.')])).toEqual([
      ['invocation', `args.${member}`],
      [1, `policy.${limit}`],
    ]);
  });

  it('is the member that the example breaks', async () => {
    const marked: Record<string, unknown> = {};
    for (const [name, text] of Object.entries(examples)) {
      const { found } = await lookAt(text);
      const [cause] = found?.failure ? causesOf(found.failure) : [];
      marked[name] = [
        found?.failure?.code ?? found?.binding,
        cause?.subject,
        cause?.part,
        cause?.path.join('.'),
      ];
    }
    expect(marked).toEqual({
      valid: ['match', undefined, undefined, undefined],
      A: ['MALFORMED_RECEIPT', 1, 'payload', 'exp'],
      B: ['CHAIN_BREAK', 1, 'payload', 'prev_dr_hash'],
      C: ['INVALID_SIGNATURE', 1, 'signature', ''],
      D: ['POLICY_VIOLATION', 'invocation', 'payload', 'args.tool'],
      E: ['EXPIRED', 2, 'payload', 'exp'],
      // Revoked in the settings of the example, not in its text.
      F: ['match', undefined, undefined, undefined],
      binding: ['mismatch', undefined, undefined, undefined],
      long: ['match', undefined, undefined, undefined],
    });
  });

  it('is marked in the text', () => {
    const text = '{\n  "policy": {\n    "max_cost_usd": 5\n  },\n  "exp": 7\n}';
    const marked = (path: (string | number)[]) =>
      marksInJson(text, path).map(({ start, end }) => text.slice(start, end));
    expect(marked(['policy', 'max_cost_usd'])).toEqual(['"max_cost_usd": 5']);
    expect(marked(['policy', 'missing'])).toEqual([text.slice(4, 41)]);
    expect(marksInJson('{"a":1,,}', ['a'])[0]?.start).toBe(7);
    expect(marksInJson('{"a":1,"a":2}', [], 'the member name "a" occurs twice')).toHaveLength(2);
    expect(marksInJwt('ab.c+d.ef', 'payload')).toEqual([{ start: 4, end: 5 }]);
  });
});

describe('it recognises', () => {
  const encoded = (text: string) => Buffer.from(text).toString('base64url');
  const kindOf = async (text: string) => {
    const { recognised, found } = await lookAt(text);
    return [recognised.kind, recognised.words.split(':')[0], found?.failure?.code ?? found?.binding ?? null];
  };

  it('a bundle in each form in which it travels', async () => {
    const { body, ...plain } = JSON.parse(examples.valid) as {
      body: object;
      receipts: string[];
      invocation: string;
    };
    const header = encoded(JSON.stringify(plain));
    const rpc = { jsonrpc: '2.0', id: 1, method: 'tools/call' };
    const { tool, ...rest } = body as { tool: string };
    const params = { name: tool, arguments: rest };
    const message = JSON.stringify({ ...rpc, params: { ...params, _meta: { 'X-DRS-Bundle': header } } });
    const entry = (headers: object[]) => ({
      request: {
        method: 'POST',
        url: 'https://tools.example/search',
        headers,
        postData: { text: JSON.stringify(body) },
      },
    });
    const har = { log: { entries: [entry([]), entry([{ name: 'X-DRS-Bundle', value: header }])] } };
    const raw = `POST /search HTTP/1.1\r\nHost: tools.example\r\nX-DRS-Bundle: ${header}\r\n\r\n${JSON.stringify(body)}`;
    const curl = `curl -X POST https://tools.example/search \\\n  -H 'X-DRS-Bundle: ${header}' \\\n  --data-raw '${JSON.stringify(body)}'`;
    expect(
      await Promise.all(
        [
          examples.valid,
          header,
          `X-DRS-Bundle: ${header}`,
          raw,
          curl,
          message,
          JSON.stringify(har),
          `file:///x`,
          `https://x.example/inspect#bundle=${header}`,
        ].map(kindOf),
      ),
    ).toEqual([
      ['bundle', 'A bundle', 'match'],
      ['bundle', 'The value of an X-DRS-Bundle header', null],
      ['bundle', 'An X-DRS-Bundle header', null],
      ['bundle', 'An HTTP request', 'match'],
      ['bundle', 'A curl command', 'match'],
      ['bundle', 'A JSON-RPC message (MCP)', 'match'],
      ['bundle', 'A HAR file', 'match'],
      ['unknown', 'Not recognised', null],
      ['bundle', 'A link to an inspector', null],
    ]);
    expect(await kindOf(plain.receipts[0] ?? '')).toEqual(['receipts', 'One receipt', null]);
    expect(await kindOf(plain.receipts.join('\n'))).toEqual([
      'receipts',
      'A chain of 3 receipts, without a call',
      null,
    ]);
    expect(await kindOf([...plain.receipts, plain.invocation].join('\n'))).toEqual([
      'bundle',
      'Receipts and an invocation',
      null,
    ]);
  });

  it('what only a service knows, in each form in which it is printed', () => {
    const receipt = `sha256:${'a'.repeat(64)}`;
    const did = 'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp';
    const counted = { calls: 3, total_cost_usd: 0.1 };
    const answer = JSON.stringify({ receipt, verify: null, gate: counted });
    const printed = `${receipt}\n  /verify: not counted, since replay protection is off\n  the gate: 3 calls, 0.1 US dollars\n`;
    const used = new Map([[receipt, { verify: null, gate: { calls: 3, microUsd: 100_000 } }]]);
    for (const text of [answer, JSON.stringify(JSON.parse(answer), null, 2), printed])
      expect(recognise(text)).toMatchObject({ kind: 'usage', used });
    const entries = [{ target: 7 }, { target: receipt }, { target: did }].map((one): LocalRevocation => ({
      ...one,
      at: NOW * 1000,
      reason: 'laptop stolen',
      exp: null,
    }));
    for (const write of [toJson]) {
      const found = recognise(`${entries.map(write).join('\n')}\n`);
      expect(found.kind === 'revocations' && [...found.entries.values()]).toEqual(entries);
    }
    const named = JSON.stringify({ did, name: 'Alice' });
    expect(recognise(named)).toMatchObject({ kind: 'roots', text: named });
    expect(recognise(`${did}, ${did}`).kind).toBe('roots');
  });

  it('what is wrong with them, and uses none of it', () => {
    const faults = [
      '{"did":"did:key:z6Mk"}',
      `{"did":"did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp","nmae":"a"}`,
      '{"did":"did:key:z6Mk"}\n{"did"',
    ].map((text) => recognise(text));
    expect(faults.map(({ kind }) => kind)).toEqual(faults.map(() => 'unknown'));
    expect(faults.map(({ words }) => words).join('\n')).toMatch(
      /Entry \[0\]\.did: .*\n.*expected one of did, name.*\n.*line 2 is none/,
    );
    expect(recognise('7').kind).toBe('unknown');
    expect(recognise('{"a":1}').words).toBe(
      'JSON, but nothing that is known here: expected a bundle, receipts, a request, a line of a log or a status list',
    );
    expect(recognise(JSON.stringify(generateKey().toJwk())).words).toMatch(
      /^A private key: show it to nobody\./,
    );
  });
});
