import { describe, expect, it } from 'vitest';
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { POLICY_MEMBERS } from '../../src/protocol/policy.js';
import { readGivenRoots } from '../../src/trust/given-roots.js';
import { readRoot, readTime } from '../../src/trust/read-root.js';
import { readLines, ROOTS } from '../../src/trust/line-files.js';
import { party } from '../support/chain.js';

const WEB = 'did:web:a.example';
const [alice, bob] = [party().did, party().did];
const FILE = 'roots.jsonl';
const linesOf = (...entries: unknown[]) => entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
const read = (text: string) => readLines(ROOTS, new Map([[FILE, Buffer.from(text)]]));
const faultsIn = (reading: Promise<unknown>) =>
  reading.then(
    () => [],
    (error: unknown) => (error as Error).message.split('\n'),
  );
const faultsOf = (text: string) => faultsIn(read(text));
const entryOf = async (entry: object) => (await read(linesOf({ did: alice, ...entry }))).get(alice);

describe('a time', () => {
  it.each([
    ['2026-11-01', 'start', '2026-11-01T00:00:00Z'],
    ['2026-11-01', 'end', '2026-11-01T23:59:59Z'],
    ['2028-02-29', 'end', '2028-02-29T23:59:59Z'],
    ['9999-12-31', 'end', '9999-12-31T23:59:59Z'],
    ['1970-01-01', 'start', '1970-01-01T00:00:00Z'],
    ['2026-11-01T08:30:15Z', 'end', '2026-11-01T08:30:15Z'],
    ['2026-11-01T08:30:15+05:30', 'start', '2026-11-01T03:00:15Z'],
    ['2026-11-01T23:59:59-23:59', 'start', '2026-11-02T23:58:59Z'],
  ] as const)('%s at its %s is %s', (text, edge, instant) => {
    expect(readTime(text, edge)).toBe(Date.parse(instant) / 1000);
  });

  it.each([
    ...[
      ...['', '2026', '2026-11', '2026-1-1', '2026-13-01', '2026-00-01', '2026-11-00', '2026-11-31'],
      '2027-02-29',
    ],
    ...[
      '1969-12-31',
      '0026-11-01',
      '12026-11-01',
      '2026-11-01 08:00:00Z',
      '2026-11-01T08:00Z',
      '2026-11-01T08:00:00',
    ],
    ...['2026-11-01t08:00:00z', '2026-11-01T08:00:00.5Z', '2026-11-01T24:00:00Z', '2026-11-01T23:60:00Z'],
    ...[
      '2026-11-01T23:59:60Z',
      '2026-11-01T08:00:00+24:00',
      '2026-11-01T08:00:00+01:60',
      '2026-11-01T08:00:00+0100',
    ],
    ...[' 2026-11-01', '2026-11-01\n', 'Nov 1 2026', '1793491200'],
  ])('%j is none', (text) => {
    expect(readTime(text, 'start')).toBeNull();
  });
});

describe('an entry', () => {
  it('says what it says, and nothing else', async () => {
    expect(await entryOf({})).toMatchObject({
      name: null,
      labels: null,
      from: null,
      until: null,
      policy: null,
    });
    const policy = { allowed_tools: ['search'], max_cost_usd: 20, pii_access: null };
    const entry = {
      name: 'Zoë',
      not_before: '2026-11-01',
      not_after: '2026-11-01',
      labels: { team: 'a b' },
      policy,
    };
    expect(await entryOf(entry)).toMatchObject({
      name: 'Zoë',
      labels: { team: 'a b' },
      from: 1_793_491_200,
      until: 1_793_577_599,
      policy: {
        hasOtherMembers: false,
        limits: [{ member: { name: 'allowed_tools' } }, { value: 20 }],
      },
    });
  });

  it.each<object>([
    { name: 'a'.repeat(200) },
    { not_before: '2026-11-01' },
    { not_before: '2026-11-01T08:00:00Z', not_after: '2026-11-01T09:00:00+01:00' },
    // Before 1970, in UTC.
    { not_after: '1970-01-01T00:00:00+01:00' },
    { labels: Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`a${n}`, 'b'])) },
    { root: true, addresses: [] },
    { addresses: Array.from({ length: 16 }, () => '10.0.0.0/8') },
    { addresses: ['::1', 'fd00::/8', '0.0.0.0/0', '::ffff:10.1.2.3', '255.255.255.255/32'] },
    { did: WEB, root: true },
    { did: WEB, root: false, name: 'x', key_fresh_secs: 1, key_stale_secs: 1, addresses: ['127.0.0.1'] },
    { did: WEB, key_fresh_secs: 300, key_stale_secs: 86_400 },
    { did: 'did:web:localhost%3A8080:a:b', labels: { team: 'x' }, policy: {} },
  ])('is in order with %j', async (entry) => {
    expect(await faultsOf(linesOf({ did: alice, ...entry }))).toEqual([]);
  });

  it('says where things are fetched', () => {
    const url = new URL('https://a.example/.well-known/did.json');
    const web = { url, freshMs: 300_000, staleMs: 86_400_000 };
    expect(readRoot({ did: WEB })).toMatchObject({ value: { isRoot: true, web, addresses: [] } });
    const given = { root: false, key_fresh_secs: 2, key_stale_secs: 3, addresses: ['10.0.0.0/8'] };
    const read = { isRoot: false, web: { url, freshMs: 2_000, staleMs: 3_000 }, addresses: ['10.0.0.0/8'] };
    expect(readRoot({ did: WEB, ...given })).toMatchObject({ value: read });
    expect(readRoot({ did: alice })).toMatchObject({ value: { isRoot: true, web: null, addresses: [] } });
  });

  it('has only members of its own', () => {
    const entry = Object.assign(Object.create({ name: 'x' }) as object, { did: alice });
    expect(readRoot(entry)).toMatchObject({ key: alice, value: { name: null } });
  });

  it.each<[object, string]>([
    [{ nmae: 'x' }, 'nmae: there is no such member, expected one of did, name, '],
    [
      { roles: [] },
      'roles: there is no such member, expected one of did, name, not_before, not_after, policy, labels',
    ],
    [{ did: 'did:key:x' }, 'did: it is "did:key:x", expected a did:key of an Ed25519 key'],
    [
      { did: 'did:web:A.example' },
      'did: it is "did:web:A.example", expected a did:key of an Ed25519 key, or a did:web',
    ],
    [{ root: false }, 'root: it is false, expected true, or false of a did:web'],
    [{ did: WEB, root: null }, 'root: it is null, expected true, or false of a did:web'],
    [{ did: WEB, root: false, policy: {} }, 'policy: it is {}, expected no such member beside "root": false'],
    [{ did: WEB, root: false, labels: {} }, 'labels: it is {}, expected no such member'],
    [{ key_fresh_secs: 300 }, 'key_fresh_secs: it is 300, expected whole seconds of a did:web, 1 to 300'],
    [{ key_stale_secs: 600 }, 'key_stale_secs: it is 600, expected whole seconds of a did:web, 300 to 86400'],
    [
      { did: WEB, key_fresh_secs: 0 },
      'key_fresh_secs: it is 0, expected whole seconds of a did:web, 1 to 300',
    ],
    [{ did: WEB, key_fresh_secs: 301 }, 'key_fresh_secs: it is 301, expected'],
    [{ did: WEB, key_fresh_secs: 1.5 }, 'key_fresh_secs: it is 1.5, expected'],
    [{ did: WEB, key_fresh_secs: '5' }, 'key_fresh_secs: it is "5", expected'],
    [
      { did: WEB, key_stale_secs: 299 },
      'key_stale_secs: it is 299, expected whole seconds of a did:web, 300 to',
    ],
    [
      { did: WEB, key_fresh_secs: 9, key_stale_secs: 8 },
      'key_stale_secs: it is 8, expected whole seconds of a did:web, 9 to',
    ],
    [{ did: WEB, key_stale_secs: 86_401 }, 'key_stale_secs: it is 86401, expected'],
    [
      { addresses: '10.0.0.0/8' },
      'addresses: it is "10.0.0.0/8", expected at most 16 addresses, or networks',
    ],
    [{ addresses: ['10.0.0.0/33'] }, 'addresses: it is ["10.0.0.0/33"], expected at most 16 addresses'],
    [{ addresses: Array.from({ length: 17 }, () => '::1') }, 'addresses: it is ["::1"'],
    [{ addresses: [7] }, 'addresses: it is [7], expected'],
    [{ addresses: null }, 'addresses: it is null, expected'],
    [{ name: '' }, 'name: it is "", expected a text of 1 to 200 characters'],
    [{ name: null }, 'name: it is null, expected a text'],
    [{ name: 'a'.repeat(201) }, 'name: it is "aaaa'],
    [{ name: ' a' }, 'name: it is " a", expected'],
    [{ name: 'a\nb' }, 'name: it is "a\\nb", expected'],
    [{ name: 'a\u202eb' }, 'name: it is'],
    [{ not_before: ['2026-11-01'] }, 'not_before: it is ["2026-11-01"], expected a day'],
    [{ not_before: 0 }, 'not_before: it is 0, expected a day such as "2026-11-01", or a time'],
    [{ not_after: '2026-02-30' }, 'not_after: it is "2026-02-30", expected a day'],
    [
      { not_before: '2026-11-02', not_after: '2026-11-01' },
      'not_after: it is "2026-11-01", expected a time that is not before not_before ("2026-11-02")',
    ],
    [{ policy: [] }, 'policy: it is [], expected an object'],
    [
      { policy: { max_costs_usd: 1 } },
      'policy.max_costs_usd: there is no such member, expected one of allowed_tools, max_cost_usd, ',
    ],
    [
      { policy: { max_cost_usd: '1' } },
      'policy.max_cost_usd: it is "1", expected a finite number of at least 0',
    ],
    [{ labels: [] }, 'labels: it is [], expected an object of at most 16 texts'],
    [{ labels: { '1a': 'b' } }, 'labels.1a: it is "b", expected a name of 1 to 64 letters'],
    [{ labels: JSON.parse('{"__proto__":"b"}') as object }, 'labels.__proto__: it is "b", expected a name'],
    [{ labels: { team: '' } }, 'labels.team: it is "", expected a text'],
    [
      { labels: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`a${n}`, 'b'])) },
      'labels: it is {"a0"',
    ],
  ])('is refused with %j', async (entry, expected) => {
    expect(await faultsOf(linesOf({ did: bob }, { did: alice, ...entry }))).toEqual([
      expect.stringContaining(`${FILE}:2: ${expected}`),
    ]);
  });
});

describe('a file', () => {
  it.each<[string, string]>([
    ['x', '1: it is not JSON: '],
    [`${linesOf({ did: alice })}{\n"did": "x"}`, '2: it is not JSON: '],
    [`\n  \r\n{"did":"x"}`, '3: did: it is "x", expected a did:key'],
    [`{"did":"${alice}","n\\u0061me":"b","name":"c"}`, '1: the member name "name" occurs twice'],
    ['"x"', '1: it is "x", expected an object with a did'],
    ['{}', '1: did: it is missing, expected a did:key'],
    [linesOf({ did: alice }, { did: bob }, { did: alice }), '3: did: "did:key:'],
    [`${linesOf({ did: alice })}${JSON.stringify({ did: bob }).slice(0, -1)}`, '2: it is not JSON: '],
    [`{"name":"${'x'.repeat(512 * 1024)}"}`, '1: it has 524299 bytes, expected at most 524288 a line'],
    ['{"roots": [', '1: it is not JSON: '],
    ['{"roots": []}', '1: roots: there is no such member, expected one of did, '],
  ])('%.60j is refused, and the line is named', async (text, expected) => {
    expect((await faultsOf(text))[0]).toContain(`${FILE}:${expected}`);
  });

  it.each(['[]', '[{"did":"x"}]', '\n [\n{"did":"x"},\n{}\n]'])(
    'that is an array is refused with the command that converts it: %j',
    async (text) => {
      const faults = await faultsOf(text);
      expect(faults).toHaveLength(1);
      expect(faults[0]).toContain("convert it with `jq -c '.[]' file.json > file.jsonl`");
    },
  );

  it('may trust nobody, end without a line feed, and have empty lines and lines that end as on Windows', async () => {
    for (const text of ['', '\n', ' \r\n\n']) expect((await read(text)).size).toBe(0);
    const text = `\n${linesOf({ did: alice }).replace('\n', '\r\n')}\n${linesOf({ did: bob }).trim()}`;
    expect([...(await read(text)).keys()]).toEqual([alice, bob]);
  });

  it('has all its faults named with their lines, twenty at most', async () => {
    const text = linesOf({ did: alice }, { did: 'x' }, { did: bob, labels: { a: 1 } }, { name: 1 });
    expect((await faultsOf(text)).map((fault) => fault.split(' is ')[0])).toEqual([
      `${FILE}:2: did: it`,
      `${FILE}:3: labels.a: it`,
      `${FILE}:4: did: it`,
      `${FILE}:4: name: it`,
    ]);
    expect(await faultsOf(linesOf(...Array.from({ length: 20 }, () => ({}))))).toHaveLength(20);
    const many = await faultsOf(linesOf(...Array.from({ length: 21 }, () => ({}))));
    expect([many.length, many.at(-1)]).toEqual([21, 'and more']);
    const latin1 = Buffer.from(`${linesOf({ did: alice })}{"name":"\xff"}`, 'latin1');
    expect(await faultsIn(readLines(ROOTS, new Map([[FILE, latin1]])))).toEqual([
      `${FILE}:2: it is not UTF-8, expected UTF-8`,
    ]);
    const utf16 = Buffer.from(`\ufeff${linesOf({ did: alice })}`, 'utf16le');
    expect((await faultsIn(readLines(ROOTS, new Map([[FILE, utf16]]))))[0]).toBe(
      `${FILE}:1: it is UTF-16, expected UTF-8`,
    );
  });

  it('does not share a root with another one', async () => {
    const files = new Map([
      ['0.jsonl', Buffer.from(linesOf({ did: bob }, { did: alice }, { did: bob }))],
      ['1.jsonl', Buffer.from(linesOf({ did: alice }))],
    ]);
    expect(await faultsIn(readLines(ROOTS, files))).toEqual([
      `0.jsonl:3: did: ${JSON.stringify(bob)} is in another line of this file, too; expected it once: remove one of them`,
      `1.jsonl:1: did: ${JSON.stringify(alice)} is in 0.jsonl, too; expected it once: remove one of them`,
    ]);
  });

  it('has no more entries than the limit, with the others', async () => {
    const files = new Map(
      [alice, bob, party().did].map((did, at) => [`${at}.jsonl`, Buffer.from(linesOf({ did }))]),
    );
    expect((await readLines(ROOTS, files, 3)).size).toBe(3);
    expect(await faultsIn(readLines(ROOTS, files, 2))).toEqual([
      '2.jsonl:1: there are more than 2 entries in all files',
    ]);
  });

  it('is read while others have their turn', async () => {
    let [turns, isReading] = [0, true];
    const count = () => void (turns++, isReading && setImmediate(count));
    setImmediate(count);
    // 1 MiB, in parts of 16 KiB.
    expect((await read(`${' \n'.repeat(512 * 1024)}${linesOf({ did: alice })}`)).size).toBe(1);
    isReading = false;
    expect(turns).toBeGreaterThanOrEqual(64);
  });
});

describe('roots that a program names', () => {
  it('are DIDs and objects, and copies of them', () => {
    const tools = ['search'];
    const given = readGivenRoots([bob, { did: alice, name: 'Alice', policy: { allowed_tools: tools } }]);
    tools[0] = '*';
    if ('problem' in given) throw new Error(given.problem);
    expect(given.value.get(bob)).toMatchObject({ name: null });
    expect(given.value.get(alice)).toMatchObject({
      name: 'Alice',
      policy: { policy: { allowed_tools: ['search'] } },
    });
  });

  it.each<[object, string]>([
    [{ did: alice, policy: undefined }, '[0].policy: it is missing, expected a value, or no such member'],
    [{ did: alice, policy: { max_cost_usd: undefined } }, '[0].policy.max_cost_usd: it is undefined'],
    [{ did: alice, policy: { max_cost_usd: NaN } }, '[0].policy.max_cost_usd: it is NaN, expected'],
    [{ did: alice, name: () => 'x' }, '[0]: it is null, expected an object'],
    [{ name: 'x' }, '[0].did: it is missing'],
  ])('are refused if something is missing: %#', (root, expected) => {
    expect(readGivenRoots([root as never])).toEqual({ problem: expect.stringContaining(expected) as string });
  });

  it('have all their faults named', () => {
    expect(readGivenRoots(['x', 'y'])).toEqual({
      problem: expect.stringMatching(/^\[0\]\.did: [^;]+; \[1\]\.did: [^;]+$/) as string,
    });
  });

  it('are refused twice', () => {
    expect(readGivenRoots([alice, { did: alice }])).toEqual({
      problem: '[1].did: it is in another entry, too',
    });
    expect(readGivenRoots([alice, alice])).toHaveProperty('value');
  });
});

describe('lists of a root', () => {
  const list = { uri: 'https://lists.example/1', form: 'w3c' };
  const read = (...lists: unknown[]) =>
    readGivenRoots([{ did: alice, name: 'Acme', status_lists: lists } as never]);

  it('have the row for what they leave out', () => {
    const given = read(list, { ...list, form: 'token', id: 'urn:1', issuer: bob, max_stale: 60 });
    const [first, second] = ('value' in given ? given.value.get(alice)?.lists : null) ?? [];
    expect(first).toMatchObject({
      ...{ form: 'w3c', name: list.uri, url: list.uri, issuer: alice, maxStaleSecs: 0, owner: 'Acme' },
    });
    expect(second).toMatchObject({ form: 'token', name: 'urn:1', issuer: bob, maxStaleSecs: 60 });
    expect(first?.key).not.toBe(second?.key);
  });

  it('are none where the row has none', () => {
    expect(readGivenRoots([alice])).toMatchObject({ value: new Map([[alice, { lists: null }]]) });
  });

  it.each<[unknown[], string]>([
    [[list, list], '[0].status_lists[1].id: it is "https://lists.example/1", expected a text of 1 to 2000'],
    [[{ ...list, id: 'a b' }], '[0].status_lists[0].id: it is "a b", expected a text'],
    [[{ ...list, id: undefined }], '[0].status_lists[0].id: it is missing, expected a text'],
    [[{ ...list, uri: 'https://me:pw@lists.example/' }], '[0].status_lists[0].uri: it is'],
    [[{ ...list, uri: 'https://lists.example/#1' }], '[0].status_lists[0].uri: it is'],
    [[{ ...list, uri: `https://lists.example/${'a'.repeat(2000)}` }], '[0].status_lists[0].uri: it is'],
    [
      [{ ...list, uri: 'ftp://lists.example/' }],
      '[0].status_lists[0].uri: it is "ftp://lists.example/", expected an https URL',
    ],
    [[{ ...list, uri: 'https://' }], '[0].status_lists[0].uri: it is "https://", expected an https URL'],
    [
      [{ ...list, issuer: 'did:x:acme.example' }],
      '[0].status_lists[0].issuer: it is "did:x:acme.example", expected a did:key',
    ],
    [[{ ...list, max_stale: 1.5 }], '[0].status_lists[0].max_stale: it is 1.5, expected 0 to 31536000'],
    [
      [{ ...list, maxStale: 1 }],
      '[0].status_lists[0].maxStale: it is 1, expected no such member, but uri, form',
    ],
    [[null], '[0].status_lists[0]: it is null, expected an object'],
    [Array.from({ length: 17 }, (_, at) => ({ ...list, id: `urn:${at}` })), '[0].status_lists: it is'],
  ])('are refused: %j', (lists, problem) => {
    expect(read(...lists)).toEqual({ problem: expect.stringContaining(problem) as string });
  });
});

describe('the JSON Schema', () => {
  const schema = JSON.parse(readFileSync('docs/spec/roots.schema.json', 'utf8')) as {
    $defs: { policy: { properties: object } };
  };
  const validate = new Ajv2020({ strict: true }).compile(schema);

  it('knows the members of a policy', () => {
    expect(Object.keys(schema.$defs.policy.properties)).toEqual(POLICY_MEMBERS.map(({ name }) => name));
  });

  it.each<[boolean, unknown]>([
    [true, { did: alice, name: 'Zoë', not_before: '2026-11-01', labels: { team: 'a' } }],
    [true, { did: alice, policy: { allowed_tools: ['a'], max_cost_usd: 2.5, pii_access: false } }],
    [true, { did: alice, not_after: '2026-11-01T08:00:00+01:00' }],
    [false, {}],
    [false, []],
    [false, { did: alice, nmae: 'x' }],
    [false, { did: 'x' }],
    [false, { did: alice, name: ' a' }],
    [false, { did: alice, not_after: 'soon' }],
    [false, { did: alice, policy: { allowed_tool: ['a'] } }],
    [false, { did: alice, policy: { allowed_tools: 'a' } }],
    [false, { did: alice, labels: { '1': 'a' } }],
    [true, { did: alice, status_lists: [{ uri: 'https://a.example/1', form: 'w3c' }] }],
    [true, { did: alice, status_lists: [{ uri: 'http://127.0.0.1:80/1', form: 'token', max_stale: 5 }] }],
    [true, { did: alice, status_lists: [{ uri: 'https://a/', form: 'token', id: 'urn:x', issuer: bob }] }],
    [false, { did: alice, status_lists: [] }],
    [false, { did: alice, status_lists: {} }],
    [false, { did: alice, status_lists: ['https://a.example/1'] }],
    [false, { did: alice, status_lists: [{ uri: 'https://a.example/1' }] }],
    [false, { did: alice, status_lists: [{ form: 'w3c' }] }],
    [false, { did: alice, status_lists: [{ uri: 'http://a.example/1', form: 'w3c' }] }],
    [false, { did: alice, status_lists: [{ uri: 'https://a.example/1', form: 'raw' }] }],
    [false, { did: alice, status_lists: [{ uri: 'https://a.example/1', form: 'w3c', max_stale: -1 }] }],
    [false, { did: alice, status_lists: [{ uri: 'https://a.example/1', form: 'w3c', ttl: 1 }] }],
  ])('says %s to %j, as the reader does', async (isRight, value) => {
    expect([validate(value), (await faultsOf(linesOf(value))).length === 0]).toEqual([isRight, isRight]);
  });
});
