import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { POLICY_MEMBERS } from '../../src/protocol/policy.js';
import { readGivenRoots } from '../../src/trust/given-roots.js';
import { lineAt, lineOfSyntaxError } from '../../src/trust/lines.js';
import { partsOf } from '../../src/trust/parts.js';
import { readRoot } from '../../src/trust/read-root.js';
import { readRoots, showFaults } from '../../src/trust/read-roots.js';
import { readTime } from '../../src/trust/times.js';
import { party } from '../support/chain.js';

const [alice, bob] = [party().did, party().did];
const read = async (value: unknown) => readRoots([{ file: 'roots.json', bytes: bytesOf(value) }]);
const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value, null, 1));
const bytesOf = (value: unknown) => Buffer.from(textOf(value));
const faultsOf = async (value: unknown) => showFaults((await read(value)).faults ?? []);
const entryOf = async (entry: object) =>
  (await read({ roots: [{ did: alice, ...entry }] })).roots?.get(alice);

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
      '',
      '2026',
      '2026-11',
      '2026-1-1',
      '2026-13-01',
      '2026-00-01',
      '2026-11-00',
      '2026-11-31',
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
        limits: [{ member: { name: 'allowed_tools' } }, { limit: { value: 20 } }],
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
  ])('is in order with %j', async (entry) => {
    expect(await faultsOf({ roots: [{ did: alice, ...entry }] })).toEqual([]);
  });

  it('has only members of its own', () => {
    const entry = Object.assign(Object.create({ name: 'x' }) as object, { did: alice });
    expect(readRoot(entry, [])).toMatchObject({ did: alice, root: { name: null } });
  });

  it.each<[object, string]>([
    [{ nmae: 'x' }, 'nmae: there is no such member, expected name'],
    [
      { roles: [] },
      'roles: there is no such member, expected one of did, name, not_before, not_after, policy, labels',
    ],
    [{ did: 'did:key:x' }, 'did: it is "did:key:x", expected a did:key of an Ed25519 key'],
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
      'policy.max_costs_usd: there is no such member, expected max_cost_usd',
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
    expect(await faultsOf({ roots: [{ did: bob }, { did: alice, ...entry }] })).toEqual([
      expect.stringMatching(/^roots\.json:\d+: roots\[1\]\./),
    ]);
    expect((await faultsOf({ roots: [{ did: alice, ...entry }] }))[0]).toContain(`roots[0].${expected}`);
  });
});

describe('a file', () => {
  it.each<[unknown, string]>([
    ['', '1: it is not JSON: '],
    ['{\n "roots": [\n', '3: it is not JSON: '],
    ['{\n"roots": [],\n}', '3: it is not JSON: '],
    ['{"roots": [],\n"roots": []}', '2: the member name "roots" occurs twice in one object'],
    ['{"roots": [{"did":"a",\n"name":"b",\n"n\\u0061me":"c"}]}', '3: the member name "name" occurs twice'],
    [[], '1: it is [], expected { "roots": ['],
    [{}, '1: roots: it is missing, expected { "roots": ['],
    [{ roots: {} }, '2: roots: it is {}, expected'],
    [{ $schema: 'x', root: [] }, '3: root: there is no such member, expected roots'],
    [{ roots: ['x'] }, '3: roots[0]: it is "x", expected an object with a did'],
    [{ roots: [{}] }, '3: roots[0].did: it is missing, expected a did:key'],
    [{ roots: [{ did: alice }, { did: bob }, { did: alice }] }, '10: roots[2].did: '],
  ])('%j is refused, and the line is named', async (value, expected) => {
    expect((await faultsOf(value))[0]).toContain(`roots.json:${expected}`);
  });

  it('may trust nobody, and names all faults with their lines', async () => {
    expect((await read({ roots: [] })).roots?.size).toBe(0);
    const text = `{ "roots": [\n{"did":"${alice}"},\n{"did":"x"},\n{"did":"${bob}",\n "labels":{"a":1}},\n{"name":1}\n]}`;
    expect((await faultsOf(text)).map((fault) => fault.split(' is ')[0])).toEqual([
      'roots.json:3: roots[1].did: it',
      'roots.json:5: roots[2].labels.a: it',
      'roots.json:6: roots[3].did: it',
      'roots.json:6: roots[3].name: it',
    ]);
    const many = await faultsOf({ roots: Array.from({ length: 99 }, () => ({})) });
    expect([many.length, many.at(-1)]).toEqual([21, 'and more']);
  });

  it('does not share a root with another one', async () => {
    const one = bytesOf({ roots: [{ did: bob }, { did: alice }] });
    const texts = [
      { file: 'a.json', bytes: one },
      { file: 'b.json', bytes: bytesOf({ roots: [{ did: alice }] }) },
    ];
    expect(showFaults((await readRoots(texts)).faults ?? [])).toEqual([
      `b.json:4: roots[0].did: ${JSON.stringify(alice)} is in a.json, too; expected it once: remove one of them`,
    ]);
    expect((await readRoots(texts.slice(0, 1))).roots?.size).toBe(2);
  });

  it('has no more entries than the limit, with the others', async () => {
    const texts = [alice, bob, party().did].map((did, at) => ({
      file: `${at}.json`,
      bytes: bytesOf({ roots: [{ did }] }),
    }));
    expect((await readRoots(texts, new Map(), 3)).faults).toBeUndefined();
    expect(showFaults((await readRoots(texts, new Map(), 2)).faults ?? [])).toEqual([
      '2.json:2: roots: there are more than 2 entries in all files',
    ]);
  });
});

describe('a long file', () => {
  // The reader is told that it knows them, so that they need not be keys.
  const dids = Array.from({ length: 2500 }, (_, n) => ({
    did: `did:key:z6Mk${String(n).padStart(44, '0')}`,
    name: 'a"\\'.repeat(7),
  }));

  /** Reads a file. @returns its faults, and the most entries that were looked at in one turn of the event loop */
  async function readInTurns(
    value: unknown,
  ): Promise<{ size: number | undefined; shown: string[]; most: number }> {
    let [inTurn, most, isOver] = [0, 0, false];
    const before = new Map<string, never>();
    before.has = () => {
      most = Math.max(most, ++inTurn);
      return true;
    };
    const turns = () => {
      inTurn = 0;
      if (!isOver) setImmediate(turns);
    };
    turns();
    const { roots, faults = [] } = await readRoots([{ file: 'roots.json', bytes: bytesOf(value) }], before);
    isOver = true;
    return { size: roots?.size, shown: showFaults(faults), most };
  }

  it('is read in parts, and others have their turn in between', async () => {
    const { size, most } = await readInTurns({ roots: dids });
    expect(size).toBe(2500);
    expect(most).toBeGreaterThan(100);
    expect(most).toBeLessThan(700);
  });

  it('has its faults named with their lines and places, and the first ones only', async () => {
    const late = await readInTurns({ roots: [...dids, { did: bob, name: 1 }, dids[0]], root: 1 });
    expect(late.shown.map((fault) => fault.replace(/: it is .*|"did:key.*/, ''))).toEqual([
      'roots.json:10005: roots[2500].name',
      'roots.json:10008: roots[2501].did: ',
      'roots.json:10012: root: there is no such member, expected roots',
    ]);
    const faulty = await readInTurns({ roots: dids.map(({ did }) => ({ did, nmae: 'x' })) });
    expect([faulty.shown.length, faulty.shown.at(-1), faulty.most]).toEqual([21, 'and more', 21]);
    expect(faulty.shown[19]).toContain('roots.json:81: roots[19].nmae: ');
  });

  it('has no entry that takes long, nor anything else', async () => {
    const long = 'x'.repeat(512 * 1024);
    const fault = (line: number) => [
      `roots.json:${line}: an entry, or what stands around them, has more than 524288 bytes; a quote or a bracket may be missing`,
    ];
    expect((await readInTurns({ roots: [...dids.slice(0, 2), { did: bob, name: long }] })).shown).toEqual(
      fault(11),
    );
    // What is too long begins behind white space.
    expect((await readInTurns(`{"roots":[ \n\n\t"${long}"]}`)).shown).toEqual(fault(3));
    expect((await readInTurns({ $schema: long, roots: [] })).shown).toEqual(fault(1));
    expect((await readInTurns({ roots: dids.slice(0, 2), $schema: long })).shown).toEqual(fault(11));
    expect(
      (await readInTurns(`{"roots":[${' '.repeat(300_000)}],${' '.repeat(300_000)}"$schema":"x"}`)).size,
    ).toBe(0);
    // As long as it may be, an entry and what stands behind.
    const [longest, more] = [JSON.stringify(dids[0]).padEnd(long.length), ' '.repeat(long.length - 1)];
    expect((await readInTurns(`{"roots":[${longest}]${more}}`)).size).toBe(1);
  });

  it.each([
    ['[,', '1'],
    ['[', '2'],
  ])('is refused if it is not JSON: %j', async (start, line) => {
    const entries = dids.map((entry) => JSON.stringify(entry)).join(',');
    for (const end of [',]}', '', '}}', ']}]', ',,{}]}'])
      expect((await readInTurns(`{"roots":${start}\n${entries}${end}`)).shown.join()).toMatch(
        new RegExp(`roots.json:${line}: it is not JSON: [^0-9]*$`),
      );
  });

  it('has the line named in which a string does not end, not where that is noticed', async () => {
    const text = textOf({ roots: dids.map(({ did }) => ({ did, name: 'a'.repeat(200) })) });
    const { shown } = await readInTurns(text.replace('a"', 'a'));
    expect(shown).toEqual([expect.stringMatching(/^roots\.json:5: it is not JSON: /)]);
  });

  it('ends a part with the entry that makes it long enough', () => {
    const parts = [...partsOf(Buffer.from('{"roots":[1,2,34]}'), 3)].map(({ bytes }) => String(bytes));
    expect(parts).toEqual(['{"roots":[1,2]}', '{"roots":[34]}', '{"roots":[\n]}']);
  });

  it('is JSON if and only if its parts are, wherever it is cut', () => {
    const text =
      '{"a":"[\\"", "roots":\n [{"b":[1,{}]},\n[],"c]\\\\" , 4,{"d":"\\"}]"}],\n"e":[{"f":[0,1]},2]}';
    const parse = (one: string): { is: unknown } | null => {
      try {
        return { is: JSON.parse(one) as unknown };
      } catch {
        return null;
      }
    };
    const edit = fc.tuple(fc.nat(text.length), fc.nat(2), fc.constantFrom(...'{}[],:"\\\n 1'.split('')));
    const property = fc.property(
      fc.array(edit, { maxLength: 3 }),
      fc.integer({ min: 1, max: 30 }),
      (edits, partBytes) => {
        let edited = text;
        for (const [at, removed, put] of edits)
          edited = edited.slice(0, at) + put + edited.slice(at + removed);
        const parts = [...partsOf(Buffer.from(edited), partBytes)];
        const read = parts.map(({ bytes }) => parse(String(bytes)));
        const whole = parse(edited);
        expect(read.every((one) => one !== null)).toBe(whole !== null);
        if (whole === null) return;
        // The entries take their place in the frame again.
        const list = read.slice(0, -1).flatMap((one) => (one as { is: { roots: unknown[] } }).is.roots);
        const frame = String(parts.at(-1)?.bytes);
        const at = parts.length === 1 ? frame.length : frame.indexOf('[\n]') + 1;
        const put =
          parts.length === 1
            ? frame
            : frame.slice(0, at) + JSON.stringify(list).slice(1, -1) + frame.slice(at);
        expect(JSON.parse(put)).toEqual(whole.is);
      },
    );
    // A comma behind the last entry, where a part ends.
    fc.assert(property, { numRuns: 1000, examples: [[[[37, 2, '\n']], 1]] });
  });
});

describe('faults', () => {
  const filesOf = async (...values: unknown[]) =>
    readRoots(values.map((value, at) => ({ file: `${at}.json`, bytes: bytesOf(value) })));
  const wrong = (count: number) => ({ roots: Array.from({ length: count }, () => ({ did: 'x' })) });

  it('have lines where they can be told', async () => {
    const { faults = [] } = await readRoots([{ file: 'roots.json', bytes: Buffer.from([0xff]) }]);
    expect(showFaults(faults)).toEqual(['roots.json: it is not UTF-8']);
    const within = await readRoots([{ file: 'a.json', bytes: Buffer.from('{"roots":["\xff"]}', 'latin1') }]);
    expect(showFaults(within.faults ?? [])).toEqual(['a.json: it is not UTF-8']);
    expect(await faultsOf('{"roots": [1 2]}')).toEqual([
      "roots.json:1: it is not JSON: Expected ',' or ']' after array element",
    ]);
    expect([0, 1, 2, 4, 5].map((offset) => lineAt('\n\nab\nc', offset))).toEqual([1, 2, 3, 3, 4]);
    expect(lineOfSyntaxError('{\n// ours\n"roots": [],}')).toBe(2);
  });

  it('of what stands around the entries are named, each once, and not without end', async () => {
    expect(await faultsOf('{"$schema":1,"roots":[]}')).toEqual([
      'roots.json:1: $schema: it is 1, expected a text',
    ]);
    expect(await faultsOf('{"$schem":{"a":1},"roots":[]}')).toEqual([
      'roots.json:1: $schem: there is no such member, expected $schema',
    ]);
    expect(await faultsOf('{"roots":1}')).toEqual([
      expect.stringMatching(/^roots\.json:1: roots: it is 1, expected \{/),
    ]);
    const members = Object.fromEntries(Array.from({ length: 99 }, (_, at) => [`a${at}`, 1]));
    expect((await read({ ...members, roots: [] })).faults).toHaveLength(20);
    expect((await read({ roots: [{ did: alice, ...members }] })).faults).toHaveLength(19);
  });

  it('are twenty at most, of all files together', async () => {
    expect(await faultsOf(wrong(20))).toHaveLength(20);
    const { faults = [] } = await filesOf(wrong(20), wrong(1), { root: 1, roots: [] });
    expect([faults.length, showFaults(faults).length, showFaults(faults).at(-1)]).toEqual([
      21,
      21,
      'and more',
    ]);
  });

  it('say where else a root is', async () => {
    const { faults = [] } = await filesOf(
      { roots: [{ did: alice }, { did: alice }] },
      { roots: [{ did: alice }] },
    );
    expect(faults.map(({ message }) => /is (in .*), too/.exec(message)?.[1])).toEqual([
      'in another entry of this file',
      'in 0.json',
    ]);
  });
});

describe('roots that a program names', () => {
  it('are DIDs and objects, and copies of them', () => {
    const tools = ['search'];
    const given = readGivenRoots([bob, { did: alice, name: 'Alice', policy: { allowed_tools: tools } }]);
    tools[0] = '*';
    if ('problem' in given) throw new Error(given.problem);
    expect(given.roots.get(bob)).toMatchObject({ name: null });
    expect(given.roots.get(alice)).toMatchObject({
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
    expect(readGivenRoots([alice, alice])).toHaveProperty('roots');
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
    [true, { roots: [] }],
    [
      true,
      { $schema: 'x', roots: [{ did: alice, name: 'Zoë', not_before: '2026-11-01', labels: { team: 'a' } }] },
    ],
    [
      true,
      { roots: [{ did: alice, policy: { allowed_tools: ['a'], max_cost_usd: 2.5, pii_access: false } }] },
    ],
    [true, { roots: [{ did: alice, not_after: '2026-11-01T08:00:00+01:00' }] }],
    [false, { roots: [{}] }],
    [false, { roots: [{ did: alice, nmae: 'x' }] }],
    [false, { roots: [{ did: 'x' }] }],
    [false, { roots: [{ did: alice, name: ' a' }] }],
    [false, { roots: [{ did: alice, not_after: 'soon' }] }],
    [false, { roots: [{ did: alice, policy: { allowed_tool: ['a'] } }] }],
    [false, { roots: [{ did: alice, policy: { allowed_tools: 'a' } }] }],
    [false, { roots: [{ did: alice, labels: { '1': 'a' } }] }],
    [false, { root: [] }],
  ])('says %s to %j, as the reader does', async (isRight, value) => {
    expect([validate(value), (await read(value)).faults === undefined]).toEqual([isRight, isRight]);
  });
});
