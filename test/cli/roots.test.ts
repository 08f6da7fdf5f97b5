import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { party } from '../support/chain.js';
import { createWorkplace, type Workplace } from './drs.js';

const [alice, bob] = [party().did, party().did];
let work: Workplace;
const run = (args: string, env: Record<string, string> = {}) =>
  work.drs(['roots', ...args.split(' ')], { env });
beforeAll(async () => {
  work = await createWorkplace();
  const write = (name: string, ...lines: object[]) =>
    writeFileSync(path.join(work.directory, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const policy = { allowed_tools: ['search'], max_cost_usd: 20 };
  const times = { not_before: '2026-11-01', not_after: '2027-11-01T12:00:00Z' };
  write('mine.jsonl', { did: bob, name: 'bob' }, { did: alice, ...times, policy, labels: { team: 'a=b' } });
  write('bad.jsonl', { did: alice, nmae: 'a' }, { did: 'x' });
  mkdirSync(path.join(work.directory, 'teams'));
  write('teams/sales.jsonl', { did: alice });
  write('teams/law.jsonl', { did: alice });
});

describe('drs roots', () => {
  it('checks', async () => {
    expect(await run('check', { TRUSTED_ROOTS_FILE: 'mine.jsonl' })).toEqual({
      code: 0,
      stdout: 'mine.jsonl is in order: 2 trusted roots\n',
      stderr: '',
    });
  });

  it.each([
    [
      'check --file bad.jsonl',
      1,
      'bad.jsonl:1: nmae: there is no such member, expected one of did, name, not_before, not_after, policy, labels; bad.jsonl:2: did: ',
    ],
    ['check --file bad.jsonl', 1, '\n  hint: correct what the message names'],
    ['check --file teams', 1, 'teams/sales.jsonl:1: did: "did:key:'],
    ['check --file missing.jsonl', 1, 'missing.jsonl: there is no such file'],
    ['check', 2, 'there is no file of trusted roots\n  hint: name it with --file, or set TRUSTED_ROOTS_FILE'],
  ])('%s says what is wrong', async (args, code, stderr) => {
    expect(await run(args)).toMatchObject({ code, stderr: expect.stringContaining(stderr) as string });
  });

  it('is what a service goes by, also in --check', async () => {
    const check = (file: string) =>
      work.drsAlone(['serve', '--check'], { env: { TRUSTED_ROOTS_FILE: file, SERVER_IDENTITY: 'any' } });
    expect(await check('bad.jsonl')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /TRUSTED_ROOTS_FILE: bad\.jsonl:1: nmae: .*\n.*bad\.jsonl:2: did: /,
      ) as string,
    });
    expect(await check('mine.jsonl')).toMatchObject({ code: 0 });
  });
});
