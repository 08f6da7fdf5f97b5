import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { noteKeyOf, noteOf, readCheckpoint, readNote } from '../../src/log/checkpoint.js';
import { checkProof, LogCheck, LogProver, redacted } from '../../src/log/check.js';
import { Sealer } from '../../src/log/sealer.js';

const SEED = Buffer.alloc(32, 7).toString('base64url');
const key = noteKeyOf(SEED);
const other = noteKeyOf(Buffer.alloc(32, 8).toString('base64url'));

/** A log of these numbers of lines by file, with a checkpoint after every third line. */
async function logOf(counts: readonly number[], by = key): Promise<string[][]> {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'sealed-')), 'log.jsonl');
  writeFileSync(file, '');
  const sealer = await Sealer.open(file, by);
  const files: string[][] = [];
  let text = sealer.begin();
  let at = 0;
  for (const count of counts) {
    for (let line = 0; line < count; line++) {
      text += sealer.seal(JSON.stringify({ time: `t${at}`, jti: `inv:${at}`, person: 'ann' })).toString();
      if (++at % 3 === 0) text += sealer.checkpoint();
    }
    const seal = sealer.checkpoint();
    files.push((text + seal).trimEnd().split('\n'));
    text = seal;
  }
  return files;
}

function check(
  files: readonly (readonly string[])[],
  known: Parameters<typeof readCheckpoint>[0] | null = null,
) {
  const log = new LogCheck(key.publicKey, known === null ? null : readCheckpoint(known, key.publicKey));
  let place = { file: '0', line: 1 };
  for (const [name, lines] of files.entries())
    for (const [at, line] of lines.entries())
      log.take(Buffer.from(line), (place = { file: String(name), line: at + 1 }));
  log.end(place);
  return log;
}

const isSeal = (line: string) => line.startsWith('{"checkpoint"');
const noteIn = (line: string | undefined) => (JSON.parse(line ?? '') as { checkpoint: string }).checkpoint;

test('a whole log holds, also in parts, packed in files, and with lines that are not sealed yet', async () => {
  const files = await logOf([10, 1, 20, 0, 3]);
  const whole = check(files);
  expect(whole.faults).toEqual([]);
  expect(whole.holds).toEqual([{ from: 0, to: 34 }]);
  expect(whole.unsealed).toBe(0);
  const later = check(files.slice(2));
  expect(later.faults).toEqual([]);
  expect(later.holds).toEqual([{ from: 11, to: 34 }]);
  const open = check([files[0]?.slice(0, -1) ?? []]);
  expect([open.faults, open.holds, open.unsealed]).toEqual([[], [{ from: 0, to: 9 }], 1]);
  const cut = (...after: string[]) => check([[...(files[0]?.slice(0, -1) ?? []), '{"seq":1', ...after]]);
  expect([cut().faults, cut().unsealed]).toEqual([[], 2]);
  expect(cut('{"seq":11,"time":"t"}').faults).toMatchObject([
    { problem: 'its number is missing, expected 10' },
  ]);
});

/** Edits of a log: of lines, of checkpoints, of files. Each is told the lines of all files, and a random number. */
const EDITS: Readonly<Record<string, (files: string[][], at: number) => void>> = {
  changed: (files, at) =>
    onLine(files, at, (lines, line) => lines.splice(line, 1, (lines[line] ?? '').replace('ann', 'bob'))),
  removed: (files, at) => onLine(files, at, (lines, line) => lines.splice(line, 1)),
  inserted: (files, at) => onLine(files, at, (lines, line) => lines.splice(line, 0, '{"seq":3,"time":"t"}')),
  doubled: (files, at) => onLine(files, at, (lines, line) => lines.splice(line, 0, lines[line] ?? '')),
  swapped: (files, at) =>
    onLine(files, at, (lines, line) => {
      const next = lines.findIndex((text, place) => place > line && !isSeal(text));
      const to = next < 0 ? lines.findIndex((text) => !isSeal(text)) : next;
      [lines[line], lines[to]] = [lines[to] ?? '', lines[line] ?? ''];
      if (to === line) lines.splice(line, 1);
    }),
  cut: (files, at) =>
    onLine(files, at, (lines, line) => lines.splice(line, 1, (lines[line] ?? '').slice(0, 9))),
  renumbered: (files, at) =>
    onLine(files, at, (lines, line) => lines.splice(line, 1, (lines[line] ?? '').replace(/\d+/, '0999'))),
  'a file that is missing': (files) => void files.splice(1, 1),
  'a file twice': (files) => void files.splice(1, 0, files[1] ?? []),
  'a checkpoint by another key': (files, at) => {
    const seals = files.flatMap((lines) =>
      lines.flatMap((line, place) => (isSeal(line) ? [[lines, place] as const] : [])),
    );
    const [lines, place] = seals[at % seals.length] ?? [[], 0];
    const [, size = '0'] = noteIn(lines[place]).split('\n');
    lines[place] = (lines[place] ?? '').replace(
      /— (\S+) \S{8}/,
      `— $1 AAAA${size.padStart(4, 'A').slice(0, 4)}`,
    );
  },
};

function onLine(files: string[][], at: number, edit: (lines: string[], line: number) => unknown): void {
  const places = files.flatMap((lines) =>
    lines.flatMap((text, line) => (isSeal(text) ? [] : [[lines, line] as const])),
  );
  const [lines, line] = places[at % places.length] ?? [[], 0];
  edit(lines, line);
}

test.each(Object.entries(EDITS))(
  '%s is found wherever it is, and what comes before the checkpoint before it holds',
  async (_name, edit) => {
    const files = await logOf([7, 11, 8]);
    const total = files.flat().filter((line) => !isSeal(line)).length;
    fc.assert(
      fc.property(fc.nat(1000), (at) => {
        const edited = files.map((lines) => [...lines]);
        edit(edited, at);
        const found = check(edited);
        expect(found.faults.length).toBeGreaterThan(0);
        // Nothing that it says holds has changed.
        const now = edited.flat().filter((line) => !isSeal(line));
        const before = files.flat().filter((line) => !isSeal(line));
        for (const { from, to } of found.holds)
          for (let seq = from; seq < Math.min(to, total); seq++) expect(now).toContain(before[seq]);
      }),
    );
  },
);

test('the first bad line is named', async () => {
  const [lines = []] = await logOf([10]);
  const without = (seq: number) => check([lines.filter((line) => !line.startsWith(`{"seq":${seq},`))]);
  const missing = (line: number) => ({
    file: '0',
    line,
    problem: '1 lines are missing up to 0:8 (between the checkpoints of 3 and 6 lines)',
  });
  const holds = [
    { from: 0, to: 3 },
    { from: 6, to: 10 },
  ];
  // Lines 3 to 5 stand in the sixth to the eighth line of the file, after a checkpoint. Without the last of them, it shows at the next.
  for (const [seq, line] of [
    [3, 6],
    [4, 7],
    [5, 8],
  ] as const)
    expect([without(seq).faults, without(seq).holds]).toEqual([[missing(line)], holds]);
});

test('files without a line, and lines without a checkpoint, are no log that holds', async () => {
  const [lines = []] = await logOf([4]);
  for (const files of [[], [[]], [lines.filter((line) => !isSeal(line))]]) {
    expect(check(files).faults).toHaveLength(1);
    expect(check(files).holds).toEqual([]);
  }
});

test('a checkpoint that was kept shows that the end was cut off, and a fork', async () => {
  const files = await logOf([7, 11]);
  const known = noteIn(files[1]?.at(-1));
  expect(check(files, known).faults).toEqual([]);
  expect(check(files.slice(0, 1), known).faults.map(({ problem }) => problem)).toEqual([
    'the log ends with 7 lines: its end was cut off, and the known checkpoint has 18',
  ]);
  const fork = (await logOf([18])).map((lines) => lines.map((line) => line));
  const changed = fork.map((lines) => lines.map((line) => line.replace('"ann"', '"bob"')));
  expect(changed.flat()).not.toEqual(fork.flat());
  // Signed anew by whoever has the key: only the known checkpoint tells.
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'sealed-')), 'log.jsonl');
  writeFileSync(file, '');
  const sealer = await Sealer.open(file, key);
  let text = sealer.begin();
  for (let at = 0; at < 18; at++) text += sealer.seal(`{"time":"other${at}"}`).toString();
  text += sealer.checkpoint();
  const anew = check([text.trimEnd().split('\n')], known);
  expect(anew.faults.map(({ problem }) => problem)).toEqual([
    'the known checkpoint of 18 lines has another root: a fork, or lines were changed',
  ]);
  expect(check(await logOf([3], other)).faults).not.toEqual([]);
});

test('a redacted line keeps its place, and says no more than it may', async () => {
  const files = await logOf([7]);
  const gone = files.map((lines) =>
    lines.map((line) => {
      if (isSeal(line) || !line.includes('inv:4')) return line;
      return redacted(Buffer.from(line), JSON.parse(line) as { time: string });
    }),
  );
  const found = check(gone);
  expect([found.faults, found.redacted, found.holds]).toEqual([[], 1, [{ from: 0, to: 7 }]]);
  expect(gone.flat().join('\n')).not.toContain('inv:4');
  expect(gone.flat().join('\n')).toContain('"time":"t4"');
  // With another hash in it, or one member more, it is a line that was changed.
  for (const [from, to] of [
    [/"redacted":"..../, '"redacted":"AAAA'],
    [/"time"/, '"name":"x","time"'],
  ] as const) {
    const wrong = gone.map((lines) =>
      lines.map((line) => (line.includes('redacted') ? line.replace(from, to) : line)),
    );
    expect(check(wrong).faults).not.toEqual([]);
  }
});

test('each line is proved by the next checkpoint, and no changed line by the same proof', async () => {
  const files = await logOf([7, 11]);
  for (let seq = 0; seq < 18; seq++) {
    const prover = new LogProver(key.publicKey);
    const found = files
      .flat()
      .map((line) => prover.take(Buffer.from(line), line.startsWith(`{"seq":${seq},`)));
    const proof = found.find((one) => one !== null);
    if (proof === undefined || proof === 'broken') throw new Error(`no proof of ${seq}`);
    expect(checkProof(proof, key.publicKey)).toMatchObject({ index: seq });
    expect(checkProof(proof, other.publicKey)).toBeNull();
    expect(checkProof({ ...proof, line: proof.line.replace('ann', 'bob') }, key.publicKey)).toBeNull();
    for (const [from, to] of [
      ['index ', 'index 1'],
      ['@v1', '@v2'],
      ['\n\n', '\n'],
    ])
      expect(
        checkProof({ ...proof, proof: proof.proof.replace(from as string, to as string) }, key.publicKey),
      ).toBeNull();
  }
});

// Those of golang.org/x/mod/sumdb/note, in its documentation: the type of the key stands before it.
const PETER = Buffer.from('ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW', 'base64').subarray(1);
const ENOCH = Buffer.from('Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8', 'base64').subarray(1);
const NOTE = `If you think cryptography is the answer to your problem,
then you don't know what your problem is.

— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
`;

test('a published note has the signature of its key, and of no other key, name or text', () => {
  const peter = () => 'PeterNeumann';
  expect(readNote(NOTE, PETER, peter)).toBe(NOTE.slice(0, NOTE.indexOf('\n\n') + 1));
  expect(readNote(NOTE, ENOCH, peter)).toBeNull();
  expect(readNote(NOTE, PETER, () => 'peterneumann')).toBeNull();
  expect(readNote(NOTE, PETER, () => undefined)).toBeNull();
  expect(readNote(NOTE.replace('then', 'than'), PETER, peter)).toBeNull();
  expect(readNote(NOTE.trimEnd(), PETER, peter)).toBeNull();
  const line = NOTE.slice(NOTE.indexOf('—'));
  expect(readNote(NOTE.replace('—', `— witness.example ${'A'.repeat(92)}\n—`), PETER, peter)).not.toBeNull();
  expect(readNote(NOTE + line.repeat(200), PETER, peter)).toBeNull();
  // The key's own id, published with it: sum.golang.org+033de0ae+…
  const checkpoint = { origin: 'sum.golang.org', size: 0, root: Buffer.alloc(32) };
  const [, signature = ''] = noteOf(checkpoint, { publicKey: ENOCH, sign: () => Buffer.alloc(64) }).split(
    'org ',
  );
  expect(Buffer.from(signature, 'base64').toString('hex', 0, 4)).toBe('033de0ae');
});
