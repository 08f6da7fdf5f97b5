import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { generateKey, type SigningKey } from '../../src/issue/index.js';
import { MAIN } from '../cli/drs.js';
import { liveCall, liveChain } from '../middleware/call.js';
import { eventually } from '../support/eventually.js';
import { startService } from '../support/service-in-process.js';
import { snippets } from './snippets.js';

// What the guides for auditors tell them to type, against the log of a real service, with `npx drs-verify` as it is built here.
const guides = snippets.filter(
  ({ document, language, mark }) =>
    document.startsWith('docs/audit/') &&
    language === 'sh' &&
    mark?.says.includes('docs/audit.test.ts') === true,
);
const folder = mkdtempSync(path.join(tmpdir(), 'drs-audited-'));
const file = (name: string) => path.join(folder, name);
const chain = liveChain(2, { policy: { allowed_tools: ['search'] } });
const [alice = '', bot = ''] = chain.parties.map(({ did }) => did);

beforeAll(async () => {
  const key: SigningKey = generateKey();
  const { d, ...publicKey } = key.toJwk();
  writeFileSync(file('gate.pub'), JSON.stringify(publicKey));
  writeFileSync(file('roots.jsonl'), `${JSON.stringify({ did: alice, name: 'alice' })}\n`);
  writeFileSync(file('npx'), `#!/bin/sh\nshift\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
  chmodSync(file('npx'), 0o755);
  const service = await startService({
    ...{ DECISION_LOG: file('decisions.jsonl'), DECISION_LOG_KEY: d, DECISION_LOG_BUNDLES: '1' },
    TRUSTED_ROOTS_FILE: file('roots.jsonl'),
  });
  for (const [at, tool] of ['search', 'search', 'delete'].entries())
    await service.post('/verify', liveCall(chain, { tool }), { 'X-Request-Id': `call-${at}` });
  await service.stop();
  await eventually(() => expect(readFileSync(file('decisions.jsonl'), 'utf8')).toContain('call-2'));
  const lines = readFileSync(file('decisions.jsonl'), 'utf8').trimEnd().split('\n');
  writeFileSync(file('known.json'), `${lines.at(-1) ?? ''}\n`);
});
afterAll(() => rmSync(folder, { recursive: true }));

it('there are guides, and each has commands', () => {
  expect(new Set(guides.map(({ document }) => document)).size).toBe(4);
});

it.each(guides.map((snippet) => [`${snippet.document}:${snippet.line}`, snippet] as const))(
  '%s can be typed',
  (_, { code }) => {
    rmSync(file('proof.json'), { force: true });
    rmSync(file('redacted'), { recursive: true, force: true });
    const env = {
      PATH: `${folder}:${process.env['PATH'] ?? ''}`,
      ...{ CALL: 'call-1', PERSON: alice, KEY: bot, NO_COLOR: '1' },
    };
    const { status, stdout, stderr } = spawnSync('sh', ['-euc', code], {
      cwd: folder,
      env,
      encoding: 'utf8',
    });
    expect([status, stderr.replace(/^(?:wrote .*|\d+ lines redacted.*)\n/gm, '')]).toEqual([0, '']);
    if (code.includes('log check')) expect(stdout).toContain('holds  lines 0 to 2 of ');
    if (code.includes('audit proof.json'))
      expect(stdout).toMatch(/^ {2}allowed at .*: what is below says the same; these roots/m);
    if (code.includes('--by')) expect(stdout).toMatch(/^\d/m);
  },
);
