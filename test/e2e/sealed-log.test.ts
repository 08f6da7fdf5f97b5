import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateKey } from '../../src/issue/index.js';
import { createWorkplace, type Workplace } from '../cli/drs.js';
import { kindOf, parse } from '../cli/log-members.js';
import { liveCall, liveChain } from '../middleware/call.js';
import { eventually } from '../support/eventually.js';
import { ServiceProcess } from '../support/service-process.js';

// For hours: SEALED_ROUNDS=2000 npx vitest run test/e2e/sealed-log.test.ts
const ROUNDS = Number(process.env['SEALED_ROUNDS'] ?? 4);
const CALLS = 5;
/** Lines that a crash has cut. */
const TORN = Math.ceil((ROUNDS - 3) / 9);
const TOTAL = ROUNDS * CALLS + TORN;

describe('a sealed decision log', { shuffle: false }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-sealed-'));
  const [file, roots] = [path.join(folder, 'decisions.jsonl'), path.join(folder, 'roots.jsonl')];
  const chain = liveChain(2, { policy: { allowed_tools: ['search'] } });
  const key = generateKey();
  let work: Workplace;
  beforeAll(async () => {
    writeFileSync(roots, `${JSON.stringify({ did: chain.parties[0]?.did, name: 'alice' })}\n`);
    work = await createWorkplace();
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const env = {
    ...{ DECISION_LOG: file, DECISION_LOG_KEY: key.toJwk().d, DECISION_LOG_BUNDLES: '1' },
    ...{ TRUSTED_ROOTS_FILE: roots, SERVER_IDENTITY: 'any' },
  };
  const logs = () => readdirSync(folder).filter((name) => /^decisions/.test(name));
  const check = (...args: string[]) =>
    work.drs(['log', 'check', ...logs().map((name) => path.join(folder, name)), '--key', key.did, ...args]);

  it('loses no acknowledged line, and has none twice, where its process is killed and its file rotated', async () => {
    const asked: string[] = [];
    const service = await ServiceProcess.start({ env });
    for (let round = 0; round < ROUNDS; round++) {
      if (round > 0) await service.restart();
      for (let call = 0; call < CALLS; call++) {
        const id = `r${round}-${call}`;
        const tool = call === 3 ? 'delete' : 'search';
        await fetch(`${service.url}/verify`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', 'X-Request-Id': id },
          body: JSON.stringify(liveCall(chain, { tool })),
        });
        asked.push(id);
        if (round % 9 === 1 && call === 2) {
          await eventually(() => expect(readFileSync(file, 'utf8')).toContain(`"${id}"`));
          renameSync(file, path.join(folder, `decisions-${round}.jsonl`));
          service.signal('SIGHUP');
          await eventually(() => expect(existsSync(file)).toBe(true));
        }
      }
      await eventually(() => expect(readFileSync(file, 'utf8')).toContain(`"${asked.at(-1)}"`));
      await service.stop(round < ROUNDS - 1 ? 'SIGKILL' : 'SIGTERM');
      // A crash can leave a part of a line.
      if (round % 9 === 2 && round < ROUNDS - 1) writeFileSync(file, '{"seq":15,"ti', { flag: 'a' });
    }
    const lines = logs().flatMap((name) =>
      readFileSync(path.join(folder, name), 'utf8').trimEnd().split('\n'),
    );
    for (const id of asked)
      expect(lines.filter((line) => line.includes(`"requestId":"${id}"`))).toHaveLength(1);
    // Each has a documented shape, and no member beside.
    for (const line of lines.filter((text) => text.startsWith('{"seq"') && text.endsWith('}')))
      expect(kindOf(JSON.parse(line) as object)).toEqual(['call']);
    const said = await check();
    expect(said.stdout).toMatch(/holds {2}lines 0 to \d+ of \S+decisions\.jsonl\n$/);
    expect(said.stdout).toContain(`lines 0 to ${TOTAL - 1} of`);
    expect(said.code).toBe(0);
    expect(lines.filter((line) => /"torn":\d+\}$/.test(line))).toHaveLength(TORN);
  });

  it('is checked packed, and by a checkpoint that somebody kept', async () => {
    const old = path.join(folder, 'decisions-1.jsonl');
    const text = readFileSync(old);
    writeFileSync(path.join(folder, 'decisions-1.jsonl.gz'), gzipSync(text));
    rmSync(old);
    const known = path.join(folder, 'known.json');
    writeFileSync(known, `${readFileSync(file, 'utf8').trimEnd().split('\n').at(-1)}\n`);
    expect((await check('--known', known)).code).toBe(0);
    const whole = readFileSync(file, 'utf8');
    writeFileSync(file, `${whole.trimEnd().split('\n').slice(0, -3).join('\n')}\n`);
    const cut = await check('--known', known);
    expect([cut.code, cut.stdout]).toEqual([1, expect.stringContaining('its end was cut off') as string]);
    writeFileSync(file, whole.replace('"tool":"search"', '"tool":"delete"'));
    const changed = await check();
    expect([changed.code, changed.stdout]).toEqual([
      1,
      expect.stringMatching(/wrong .*it was changed/) as string,
    ]);
    writeFileSync(file, whole);
  });

  it('proves a line, with what a verifier said then, by which roots', async () => {
    const files = logs().map((name) => path.join(folder, name));
    for (const [id, said] of [
      ['r3-1', 'allowed'],
      ['r3-3', 'refused, POLICY_VIOLATION'],
    ] as const) {
      const proof = path.join(folder, `${id}.json`);
      expect((await work.drs(['log', 'prove', id, ...files, '--key', key.did, '-o', proof])).code).toBe(0);
      const audited = await work.drs(['audit', proof, '--key', key.did, '--roots', roots]);
      expect(audited.stdout).toContain(said);
      expect(audited.stdout).toMatch(/sealed {2}line \d+ of \S+, by its checkpoint of \d+ lines/);
      expect(audited.stdout).toContain('what is below says the same; these roots were in force');
      expect(audited.code).toBe(0);
      const forged = readFileSync(proof, 'utf8').replace('search', 'delete');
      writeFileSync(proof, forged);
      expect((await work.drs(['audit', proof, '--key', key.did])).code).toBe(1);
      expect((await work.drs(['log', 'check', proof, '--key', key.did])).code).toBe(1);
    }
    expect((await work.drs(['log', 'prove', 'nobody', ...files, '--key', key.did])).code).toBe(1);
  });

  it('holds without what it says of somebody', async () => {
    const into = path.join(folder, 'redacted');
    const files = logs().map((name) => path.join(folder, name));
    expect((await work.drs(['log', 'redact', ...files, '--with', 'alice', '--into', into])).code).toBe(0);
    const copies = readdirSync(into).map((name) => path.join(into, name));
    expect(copies.length).toBeGreaterThan(1);
    const checked = await work.drs(['log', 'check', ...copies, '--key', key.did]);
    expect(checked.stdout).toContain(`${ROUNDS * CALLS} lines are redacted`);
    expect(checked.code).toBe(0);
    const read = await work.drs(['log', ...copies, '--json']);
    expect(read.stdout).not.toContain('alice');
    expect((await work.drs(['log', 'redact', ...files, '--with', 'alice', '--into', into])).code).toBe(2);
  });

  it('goes to a SIEM as events of OCSF', async () => {
    const read = await work.drs(['log', file, '--as', 'ocsf']);
    const events = parse(read.stdout);
    expect(events.length).toBeGreaterThan(5);
    for (const event of events) {
      // What the class API Activity (6003) of OCSF 1.4.0 requires.
      expect(event).toMatchObject({ category_uid: 6, class_uid: 6003, activity_id: 99, type_uid: 600_399 });
      expect(event).toMatchObject({ metadata: { version: '1.4.0', product: { name: 'drs-verify' } } });
      expect(event).toMatchObject({ api: { operation: expect.stringMatching(/^search|delete$/) as string } });
      expect(event).toMatchObject({ actor: { user: { name: 'alice' } }, src_endpoint: { ip: '127.0.0.1' } });
      expect(event['time']).toBeGreaterThan(1.7e12);
    }
    const refused = events.filter(({ status_id }) => status_id === 2);
    expect(refused).not.toEqual([]);
    expect(new Set(refused.map(({ status_code }) => status_code))).toEqual(new Set(['POLICY_VIOLATION']));
    expect((await work.drs(['log', file, '--as', 'ocsf', '--by', 'code'])).code).toBe(2);
  });

  it('shows where logrotate has copied and truncated it', async () => {
    const name = path.join(folder, 'truncated.jsonl');
    const service = await ServiceProcess.start({ env: { ...env, DECISION_LOG: name } });
    const ask = async (id: string) => {
      await fetch(`${service.url}/verify`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Request-Id': id },
        body: JSON.stringify(liveCall(chain, { tool: 'search' })),
      });
      await eventually(() => expect(readFileSync(name, 'utf8')).toContain(`"${id}"`));
    };
    await ask('before');
    copyFileSync(name, `${name}.1`);
    truncateSync(name);
    await ask('after');
    await service.stop();
    const said = await work.drs(['log', 'check', name, `${name}.1`, '--key', key.did]);
    expect([said.code, said.stdout]).toEqual([
      1,
      expect.stringContaining(
        'truncated.jsonl:1: it is no checkpoint of this key, with which a log begins',
      ) as string,
    ]);
  });

  it('has one writer', async () => {
    const service = await ServiceProcess.start({ env });
    await expect(ServiceProcess.start({ env })).rejects.toThrow('the service ended with');
    await service.stop();
  });
});
