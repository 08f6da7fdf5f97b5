import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { party } from '../support/chain.js';
import { createWorkplace, type Workplace } from './drs.js';

const [alice, bob] = [party().did, party().did];
let work: Workplace;
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

describe('drs serve --check', () => {
  const check = (file: string) =>
    work.drsAlone(['serve', '--check'], { env: { TRUSTED_ROOTS_FILE: file, SERVER_IDENTITY: 'any' } });

  it('takes trusted roots in order', async () => {
    expect(await check('mine.jsonl')).toMatchObject({ code: 0 });
  });

  it.each([
    [
      'bad.jsonl',
      /TRUSTED_ROOTS_FILE: bad\.jsonl:1: nmae: there is no such member, expected one of did, name, not_before, not_after, policy, labels, status_lists, approve, approvers, needed, private, root, key_fresh_secs, key_stale_secs, addresses\n.*bad\.jsonl:2: did: /,
    ],
    ['teams', /TRUSTED_ROOTS_FILE: teams\/sales\.jsonl:1: did: "did:key:/],
    ['missing.jsonl', /TRUSTED_ROOTS_FILE: missing\.jsonl: there is no such file/],
  ])('says what is wrong with those in %s', async (file, says) => {
    expect(await check(file)).toMatchObject({ code: 2, stderr: expect.stringMatching(says) as string });
  });
});
