import {
  mkdir,
  mkdtemp,
  open as openFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { InThreadVerifier } from '../../src/signatures/in-thread.js';
import { WebKeys } from '../../src/trust/did-web.js';
import { FollowedLines } from '../../src/trust/followed-lines.js';
import { ROOTS } from '../../src/trust/line-files.js';
import type { Root } from '../../src/verify/parts.js';
import { createVerifier, type TrustedRoot } from '../../src/index.js';
import { openRevocation } from '../../src/revocation/index.js';
import { Engine } from '../../src/verifier/engine.js';
import { readVerifierOptions } from '../../src/verifier/options.js';
import { invoke, makeChain, party, type Party } from '../support/chain.js';
import { eventually } from '../support/eventually.js';

const [alice, bob] = [party().did, party().did];
const textOf = (...roots: TrustedRoot[]) => roots.map((root) => `${JSON.stringify(root)}\n`).join('');
const base = await mkdtemp(path.join(tmpdir(), 'drs-roots-'));
afterAll(() => rm(base, { recursive: true }));

let folder: string;
let file: string;
let logged: string[];
let facts: object[];
let outcomes: string[];
let open: FollowedLines<Root>[];
beforeEach(async () => {
  folder = await mkdtemp(path.join(base, 't-'));
  file = path.join(folder, 'roots.jsonl');
  [logged, facts, outcomes, open] = [[], [], [], []];
});
afterEach(async () => {
  open.forEach((roots) => roots.close());
  // Comes after a look that is under way.
  await Promise.allSettled(open.map((roots) => roots.reload()));
});

async function follow(place = file, pollMs = 5): Promise<FollowedLines<Root>> {
  const log = {
    info: (of: object, message: string) => void [facts.push(of), logged.push(message)],
    error: (of: { err?: Error }, message: string) =>
      void [facts.push(of), logged.push(`${message}: ${of.err?.message}`)],
  };
  const onRead = (outcome: string) => void outcomes.push(outcome);
  const roots = await FollowedLines.open(ROOTS, place, { log, onRead, pollMs });
  open.push(roots);
  return roots;
}

/** Replaces a file in one step. */
async function put(text: string, at = file): Promise<void> {
  await writeFile(`${at}.new`, text);
  await rename(`${at}.new`, at);
}

describe('a file of roots', () => {
  it('is followed: what is added, changed and removed counts', async () => {
    await put(textOf({ did: alice, name: 'Alice' }));
    const roots = await follow();
    expect([roots.get(alice)?.name, roots.get(bob), roots.size]).toEqual(['Alice', undefined, 1]);
    await put(textOf({ did: alice, name: 'Alice B.' }, { did: bob }));
    await eventually(() => expect([roots.get(alice)?.name, roots.size]).toEqual(['Alice B.', 2]));
    await put(textOf());
    await eventually(() =>
      expect([roots.get(alice), roots.size, roots.isFaulty]).toEqual([undefined, 0, false]),
    );
    expect(outcomes).toEqual(['loaded', 'loaded']);
  });

  it('is read again where its size and its times stay as they are', async () => {
    await writeFile(file, textOf({ did: alice, name: 'a' }));
    const { atime, mtime } = await stat(file);
    const roots = await follow();
    await writeFile(file, textOf({ did: alice, name: 'b' }));
    await utimes(file, atime, mtime);
    await eventually(() => expect(roots.get(alice)?.name).toBe('b'));
  });

  it('changes nothing while it has a fault, says so once, and counts', async () => {
    await put(textOf({ did: alice }));
    const roots = await follow();
    await put(textOf({ did: alice }, { did: 'x' }));
    await eventually(() => expect(roots.isFaulty).toBe(true));
    expect([roots.get(alice)?.name, roots.size]).toEqual([null, 1]);
    await rm(file);
    await eventually(() => expect(logged).toHaveLength(3));
    await put(textOf({ did: alice }));
    await eventually(() => expect(roots.isFaulty).toBe(false));
    expect(logged).toEqual([
      'the trusted roots were read',
      `the trusted roots cannot be read: the old ones still hold: ${file}:2: did: it is "x", expected a did:key of an Ed25519 key, or a did:web`,
      `the trusted roots cannot be read: the old ones still hold: ${file}: there is no such file`,
      'the trusted roots were read again',
    ]);
    const refused = { err: expect.any(Error) as Error, roots: 1 };
    expect(facts).toEqual([{ roots: 1, from: file }, refused, refused, { roots: 1, from: file }]);
    expect(outcomes).toEqual(['refused', 'refused', 'loaded']);
  });

  it('trusts nobody whom the whole of it does not, where it is half-written', async () => {
    const text = textOf({ did: alice, name: 'Alice' }, { did: bob, labels: { team: 'a' } });
    await writeFile(file, textOf({ did: alice }));
    const roots = await follow(file, 1e6);
    const end = text.indexOf('\n');
    for (let length = 0; length <= text.length; length += 7) {
      await writeFile(file, text.slice(0, length));
      const isCut = ![0, end, end + 1, text.length - 1, text.length].includes(length);
      if (isCut) await expect(roots.reload()).rejects.toThrow('it is not JSON');
      else expect(await roots.reload()).toBe(length === 0 ? 0 : length <= end + 1 ? 1 : 2);
    }
  });

  it('is read when it is asked for, one reading after the other', async () => {
    await put(textOf({ did: alice }));
    const roots = await follow(file, 1e6);
    await put(textOf({ did: alice }, { did: bob }));
    expect(await Promise.all([roots.reload(), roots.reload()])).toEqual([2, 2]);
    await put('{}\n');
    const [first, second] = await Promise.allSettled([roots.reload(), roots.reload()]);
    expect([first.status, second.status, roots.size]).toEqual(['rejected', 'rejected', 2]);
    expect(outcomes).toEqual(['loaded', 'loaded', 'refused']);
  });

  it('must be in order at the start', async () => {
    await expect(follow()).rejects.toMatchObject({
      name: 'LinesError',
      message: `the trusted roots cannot be read: ${file}: there is no such file`,
      cause: { code: 'ENOENT' },
    });
    await put('1\n2');
    await expect(follow()).rejects.toThrow(/^.*:1: it is 1.*\n.*:2: it is 2.*$/);
    await writeFile(file, Buffer.from([0xff]));
    await expect(follow()).rejects.toThrow(`${file}:1: it is not UTF-8, expected UTF-8`);
    await truncate(file, 64 * 1024 * 1024 + 1);
    await expect(follow()).rejects.toThrow(`${file}: it has 67108865 bytes, expected at most 67108864`);
    await expect(follow('/dev/null')).rejects.toThrow('/dev/null: it is not a file');
  });
});

describe('a look at the files', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }));
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** Counts the readings of files, of which each takes one call. */
  async function countReads() {
    const handle = await openFile(file);
    await handle.close();
    return vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'createReadStream');
  }

  it('reads what two of them have found, and what has not changed since not again', async () => {
    await put(textOf({ did: alice }));
    const roots = await follow(file, 1000);
    const reads = await countReads();
    await put(textOf({ did: bob }));
    vi.advanceTimersByTime(1000);
    // Comes after the look, and reads them itself.
    await roots.reload();
    expect(reads).toHaveBeenCalledTimes(1);
    for (const [text, isFaulty] of [
      ['{}', true],
      [textOf({ did: alice }), false],
    ] as const) {
      reads.mockClear();
      await put(text);
      await eventually(() => {
        vi.advanceTimersByTime(1000);
        expect(roots.isFaulty).toBe(isFaulty);
      });
      expect(reads).toHaveBeenCalledTimes(1);
    }
    vi.advanceTimersByTime(1000);
    await roots.reload();
    expect(reads).toHaveBeenCalledTimes(2);
    roots.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('needs no observer', async () => {
    await put(textOf());
    const roots = await FollowedLines.open(ROOTS, file, { log: { info() {}, error() {} } });
    await put('{}');
    await expect(roots.reload()).rejects.toThrow('did: it is missing');
    await put(textOf({ did: alice }));
    expect(await roots.reload()).toBe(1);
    roots.close();
  });
});

describe('a directory of files', () => {
  it('counts as one, without files of other names', async () => {
    for (const name of ['b.jsonl', 'a.jsonl'])
      await writeFile(path.join(folder, name), textOf({ did: name === 'a.jsonl' ? alice : bob, name }));
    for (const name of ['.hidden.jsonl', 'note.txt', 'a.jsonl.bak', 'c.json'])
      await writeFile(path.join(folder, name), '?');
    const roots = await follow(folder);
    expect([roots.get(alice)?.name, roots.get(bob)?.name]).toEqual(['a.jsonl', 'b.jsonl']);
    await put(textOf({ did: alice }), path.join(folder, 'b.jsonl'));
    await eventually(() => expect(roots.isFaulty).toBe(true));
    expect(logged.at(-1)).toContain(`b.jsonl:1: did: "${alice}" is in ${path.join(folder, 'a.jsonl')}, too`);
    await rm(path.join(folder, 'a.jsonl'));
    await eventually(() =>
      expect([roots.isFaulty, roots.size, roots.get(bob)]).toEqual([false, 1, undefined]),
    );
  });

  it('must have one, also later', async () => {
    await expect(follow(folder)).rejects.toThrow(`${folder}: there is no *.jsonl in this directory`);
    await put(textOf({ did: alice }));
    const roots = await follow(folder);
    await rm(file);
    await eventually(() => expect([roots.isFaulty, roots.size]).toEqual([true, 1]));
  });

  it('may be one whose link is turned to another directory, as in Kubernetes', async () => {
    for (const [name, did] of [
      ['..1', alice],
      ['..2', bob],
    ] as const) {
      await mkdir(path.join(folder, name));
      await writeFile(path.join(folder, name, 'roots.jsonl'), textOf({ did }));
    }
    await symlink('..1', path.join(folder, '..data'));
    await symlink(path.join('..data', 'roots.jsonl'), file);
    const [whole, one] = [await follow(folder), await follow(file)];
    await symlink('..2', path.join(folder, '..data_tmp'));
    await rename(path.join(folder, '..data_tmp'), path.join(folder, '..data'));
    await eventually(() =>
      expect([whole, one].map((roots) => [roots.get(alice), roots.get(bob)?.name])).toEqual([
        [undefined, null],
        [undefined, null],
      ]),
    );
  });
});

/** `ROOTS_CALLS=100000` runs the long form. */
const CALLS = Number(process.env['ROOTS_CALLS'] ?? 500);

it('a file that is rewritten under load gives no wrong verdict', { timeout: 600_000 }, async () => {
  const chains = [makeChain(2), makeChain(3), makeChain(1)] as const;
  const [always, sometimes] = chains.map((chain) => chain.parties[0]?.did ?? '') as [string, string];
  const bundles = chains.map((chain) => invoke(chain));
  // Every root is called by the number of its version; the second one is only in the even ones.
  const version = (number: number) =>
    textOf(
      { did: always, name: String(number) },
      ...(number % 2 === 0 ? [{ did: sometimes, name: String(number) }] : []),
    );
  let written = 0;
  await put(version(0));
  const roots = await follow(file, 1);
  const revocation = await openRevocation({
    maxEntries: 10,
    log: { info() {}, warn() {}, error() {} },
  });
  const engine = new Engine(
    readVerifierOptions({}),
    new InThreadVerifier(),
    { roots, tools: null, keys: new WebKeys({ log: { info() {}, warn() {} } }) },
    revocation,
    null,
  );
  const load = { isOver: false };
  const rewriting = (async () => {
    for (let round = 0; !load.isOver; round++) {
      // In turn: in one step, and with its beginning overwritten in place.
      if (round % 3 === 2) {
        const handle = await openFile(file, 'r+');
        await handle.write('?');
        await handle.close();
      } else await put(version(++written));
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
  })();
  let seen = 0;
  const outcomesOf = new Map<string, number>();
  for (let call = 0; call < CALLS || outcomesOf.size < 4 || seen === 0; call++) {
    const at = call % 3;
    const { failure, ...valid } = await engine.verify({ bundle: bundles[at], body: null });
    const name = Number((valid as { root?: { name: string } }).root?.name ?? NaN);
    const code = failure?.code ?? 'valid';
    outcomesOf.set(`${at} ${code}`, (outcomesOf.get(`${at} ${code}`) ?? 0) + 1);
    if (at === 0 || (at === 1 && code === 'valid')) {
      // Never an older version than before, nor one that is not written.
      if (!(name >= seen && name <= written) || (at === 1 && name % 2 !== 0))
        throw new Error(`call ${call}: ${code} by version ${name}, after ${seen}, and ${written} is written`);
      seen = name;
    } else expect(code).toBe('UNTRUSTED_ROOT');
    // A look at the file takes several turns of the event loop, and must come to its end between two changes.
    await new Promise((resolve) => setImmediate(resolve));
  }
  load.isOver = true;
  await rewriting;
  await engine.close();
  expect([...outcomesOf.keys()].sort()).toEqual([
    '0 valid',
    '1 UNTRUSTED_ROOT',
    '1 valid',
    '2 UNTRUSTED_ROOT',
  ]);
  if (CALLS > 500) console.log(outcomesOf, { versions: seen, written });
});

it('a verifier of the library goes by it, until it is closed', async () => {
  const chain = makeChain(2);
  const { did } = chain.parties[0] as Party;
  await put(textOf({ did, name: 'Alice', labels: { team: 'a' } }));
  const verifier = createVerifier({ trustedRootsFile: file, workerThreads: 0 });
  const { details, ...verdict } = await verifier.verify(invoke(chain), { details: true });
  expect([verdict.valid, details?.root_name, details?.labels]).toEqual([true, 'Alice', { team: 'a' }]);
  await put(textOf({ did: alice }));
  await eventually(async () =>
    expect(await verifier.verify(invoke(chain))).toMatchObject({ error: { code: 'UNTRUSTED_ROOT' } }),
  );
  await verifier.close();
  await put('x');
  const broken = createVerifier({ trustedRootsFile: file, workerThreads: 0 });
  await expect(broken.opened()).rejects.toThrow(`${file}:1: it is not JSON`);
  expect(() => createVerifier({ trustedRootsFile: file, trustedRoots: [did] })).toThrow('are both set');
  expect(() => createVerifier({ trustedRoots: [{ did, name: '' }] })).toThrow(
    'trustedRoots: [0].name: it is ""',
  );
});
