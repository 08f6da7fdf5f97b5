import { beforeAll, describe, expect, it } from 'vitest';
import { takeStatusIndex } from '../../src/cli/status-index-file.js';
import { createWorkplace, type Workplace } from './drs.js';

let work: Workplace;
beforeAll(async () => {
  work = await createWorkplace();
});

describe('a file of free status list indices', () => {
  it('gives each once, from the first on', async () => {
    await work.write('free', '7\n\n 100-102 \n5-5\n');
    const taken = [];
    for (let count = 0; count < 5; count++) taken.push(await takeStatusIndex(work.path('free')));
    expect(taken).toEqual([7, 100, 101, 102, 5]);
    expect(await work.read('free')).toBe('');
    await expect(takeStatusIndex(work.path('free'))).rejects.toThrow('no free status list index left');
  });

  it.each([
    ['x\n', 'its first line is "x"'],
    ['-1\n', 'its first line is "-1"'],
    ['9-8\n', 'its first line is "9-8"'],
    ['9007199254740992\n', 'expected an index or a range'],
  ])('is refused where it is not one: %j', async (content, message) => {
    await work.write('wrong', content);
    await expect(takeStatusIndex(work.path('wrong'))).rejects.toThrow(message);
    expect(await work.read('wrong')).toBe(content);
  });

  it('gives several commands at once different ones, which are in what they issue', async () => {
    await work.write('shared', '40-47\n');
    const { stdout: did } = await work.done('keygen', '-o', 'alice.key');
    const issue = ['issue', '--key', 'alice.key', '--to', did.trim(), '--tool', 'a', '--yes'];
    const outcomes = await Promise.all(
      Array.from({ length: 4 }, () => work.done(...issue, '--status-index-from', 'shared')),
    );
    const indices = outcomes.map(({ stdout }) => {
      const payload = Buffer.from(stdout.split('.')[1] ?? '', 'base64url').toString();
      return (JSON.parse(payload) as { drs_status_list_index: number }).drs_status_list_index;
    });
    expect(indices.sort()).toEqual([40, 41, 42, 43]);
    expect(await work.read('shared')).toBe('44-47\n');
    expect(outcomes[0]?.stderr).toMatch(
      /took status list index 4\d from shared: `npx drs-verify revoke 4\d` ends/,
    );
  });

  it('loses none where the person does not agree', async () => {
    await work.write('kept', '40\n');
    const { stdout: did } = await work.done('keygen', '-o', 'carol.key');
    const issue = [
      'issue',
      '--key',
      'carol.key',
      '--to',
      did.trim(),
      '--tool',
      'a',
      '--status-index-from',
      'kept',
    ];
    // There is no terminal to ask at.
    expect((await work.drs(issue)).code).toBe(2);
    expect(await work.read('kept')).toBe('40\n');
  });

  it('is not asked beside an index', async () => {
    await work.write('other', '40\n');
    const { stdout: did } = await work.done('keygen', '-o', 'bob.key');
    const issue = ['issue', '--key', 'bob.key', '--to', did.trim(), '--tool', 'a', '--yes'];
    const { code, stderr } = await work.drs([
      ...issue,
      '--status-index',
      '1',
      '--status-index-from',
      'other',
    ]);
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('cannot be used with') as string,
    });
    expect(await work.read('other')).toBe('40\n');
  });
});
