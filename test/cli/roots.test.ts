import {
  mkdirSync,
  chmodSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { party } from '../support/chain.js';
import { createWorkplace, type Workplace } from './drs.js';

const [alice, bob, carol] = [party().did, party().did, party().did];
let work: Workplace;
beforeAll(async () => {
  work = await createWorkplace();
});
const at = (name: string) => path.join(work.directory, name);
const text = (name: string) => readFileSync(at(name), 'utf8');
const rootsIn = (name: string) => (JSON.parse(text(name)) as { roots: Record<string, unknown>[] }).roots;
const run = (args: string, env: Record<string, string> = {}) =>
  work.drs(['roots', ...args.split(' ')], { env });

describe('drs roots', { shuffle: false }, () => {
  it('adds behind the others, and keeps the rest of the file as it is', async () => {
    expect(await run(`add ${bob} --file new.json --name bob`)).toEqual({
      code: 0,
      stdout: 'added bob to new.json\n',
      stderr: 'wrote new.json\n',
    });
    expect(rootsIn('new.json')).toEqual([{ did: bob, name: 'bob' }]);
    const written = `{\n\t"$schema": "x",\n\t"roots": [\n\t\t{ "name": "bob",   "did": "${bob}" }\n\t]\n}\n`;
    writeFileSync(at('mine.json'), written);
    chmodSync(at('mine.json'), 0o640);
    symlinkSync('mine.json', at('link.json'));
    const limits =
      '--tool search --max-cost 20 --deny-pii --not-before 2026-11-01 --not-after 2027-11-01T12:00:00Z';
    const outcome = await run(
      `add ${alice} --name alice@example.com ${limits} --label team=a=b --label x=y`,
      {
        TRUSTED_ROOTS_FILE: 'link.json',
      },
    );
    expect(outcome).toMatchObject({ code: 0, stdout: `added alice@example.com to ${at('mine.json')}\n` });
    expect(text('mine.json').startsWith(written.slice(0, written.indexOf('\n\t]')))).toBe(true);
    expect(rootsIn('mine.json')[1]).toEqual({
      did: alice,
      name: 'alice@example.com',
      not_before: '2026-11-01',
      not_after: '2027-11-01T12:00:00Z',
      policy: { allowed_tools: ['search'], max_cost_usd: 20, pii_access: false },
      labels: { team: 'a=b', x: 'y' },
    });
    expect(statSync(at('mine.json')).mode & 0o777).toBe(0o640);
    expect(readdirSync(work.directory).filter((name) => name.startsWith('mine.json'))).toEqual(['mine.json']);
  });

  it('lists and checks', async () => {
    expect((await run('list --file mine.json')).stdout).toBe(
      `bob  ${bob}\nalice@example.com  ${alice}  from 2026-11-01  to 2027-11-01T12:00:00Z  ` +
        '{"allowed_tools":["search"],"max_cost_usd":20,"pii_access":false}  team=a=b  x=y\n',
    );
    expect(await run('check --file mine.json')).toMatchObject({
      code: 0,
      stdout: 'mine.json is in order: 2 trusted roots\n',
    });
    writeFileSync(at('bad.json'), `{"roots":[\n{"did":"${alice}","nmae":"a"},\n{"did":"x"}]}`);
    for (const command of ['check', 'list'])
      expect(await run(`${command} --file bad.json`)).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(
          /bad\.json:2: roots\[0\]\.nmae: there is no such member, expected name; bad\.json:3: roots\[1\]\.did: it is "x".*\n {2}hint: correct/,
        ) as string,
      });
  });

  it('removes by DID, by name, and by key file', async () => {
    await work.done('keygen', '-o', 'dave.key');
    const { did } = JSON.parse(text('dave.pub')) as { did?: string };
    for (const [key, name] of [
      [alice, 'a'],
      [bob, 'twice'],
      [carol, 'twice'],
      ['dave.pub', 'dave'],
    ] as const)
      await work.done('roots', 'add', key, '--file', 'gone.json', '--name', name);
    expect((await run('remove twice --file gone.json')).stdout).toBe(
      `removed twice ${bob}\nremoved twice ${carol}\n`,
    );
    expect((await run('remove dave.pub --file gone.json')).stdout).toContain(
      `removed dave ${did ?? 'did:key:'}`,
    );
    expect((await run(`remove ${alice} --file gone.json`)).code).toBe(0);
    expect(rootsIn('gone.json')).toEqual([]);
    expect(await run('remove nobody --file gone.json')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        'gone.json has no principal with the name "nobody"\n  hint: `drs-verify roots list`',
      ) as string,
    });
  });

  it.each([
    ['add x --file a.json', 2, 'cannot read a key'],
    [`add ${alice} --file no.json --not-after soon`, 1, 'roots[0].not_after: it is "soon", expected a day'],
    [`add ${alice} --file mine.json`, 1, 'roots[2].did: "did:key:'],
    [`add ${alice} --file bad.json`, 1, 'bad.json:2: roots[0].nmae'],
    [`add ${alice} --file .`, 2, '. is a directory\n  hint: name a file in it with --file'],
    [
      `add ${alice}`,
      2,
      'there is no file of trusted roots\n  hint: name it with --file, or set TRUSTED_ROOTS_FILE',
    ],
    [`add ${alice} --file no.json --label team`, 2, 'Expected name=text'],
    ['check --file missing.json', 1, 'missing.json: there is no such file'],
  ])('%s says what is wrong, and changes nothing', async (args, code, stderr) => {
    const before = text('mine.json');
    expect(await run(args)).toMatchObject({ code, stderr: expect.stringContaining(stderr) as string });
    expect([text('mine.json'), readdirSync(work.directory).includes('no.json')]).toEqual([before, false]);
  });

  it('does not put a DID into two files of a directory', async () => {
    mkdirSync(at('teams'));
    const env = { TRUSTED_ROOTS_FILE: at('teams') };
    expect((await run(`add ${alice} --file ${at('teams/sales.json')}`, env)).code).toBe(0);
    expect(await run(`add ${alice} --file ${at('teams/law.json')}`, env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`is in ${at('teams/sales.json')}, too`) as string,
    });
    expect((await run(`add ${bob} --file ${at('teams/law.json')}`, env)).code).toBe(0);
    expect((await run('check', env)).stdout).toContain('in order: 2 trusted roots');
  });

  it('is what a service goes by, also in --check', async () => {
    const check = (file: string) =>
      work.drsAlone(['serve', '--check'], { env: { TRUSTED_ROOTS_FILE: file, SERVER_IDENTITY: 'any' } });
    expect(await check('bad.json')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /TRUSTED_ROOTS_FILE: bad\.json:2: roots\[0\]\.nmae: .*\n.*bad\.json:3: roots\[1\]\.did: /,
      ) as string,
    });
    expect(await check('mine.json')).toMatchObject({ code: 0 });
  });
});
