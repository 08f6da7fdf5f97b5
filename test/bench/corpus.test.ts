import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import autocannon from 'autocannon';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeCalls } from '../../bench/workload/chains.js';
import { filesOf } from '../../bench/workload/corpus.js';
import { needs } from '../support/programs.js';
import { startService, type RunningService } from '../support/service.js';

const run = promisify(execFile);
const CALLS = 40;

describe('a corpus of calls', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-corpus-'));
  const at = (file: string) => path.join(folder, file);
  let service: RunningService;
  let bodies: readonly string[];
  beforeAll(async () => {
    service = await startService();
    bodies = makeCalls(2, CALLS, 32, 3600).map(({ body }) => body);
    for (const [name, text] of Object.entries(filesOf(bodies, `${service.url}/verify`, '"valid":true')))
      writeFileSync(at(name), text);
  });
  afterAll(async () => {
    await service.stop();
    rmSync(folder, { recursive: true });
  });

  it('has valid calls, one a line, and the same for vegeta', async () => {
    const lines = readFileSync(at('bodies.jsonl'), 'utf8').trimEnd().split('\n');
    expect(lines).toEqual(bodies);
    expect(new Set(lines).size).toBe(CALLS);
    for (const line of lines)
      expect(await (await service.post('/verify', line)).json()).toMatchObject({ valid: true });
    const targets = readFileSync(at('vegeta.jsonl'), 'utf8').trimEnd().split('\n');
    const target = JSON.parse(targets[7] ?? '') as { body: string };
    expect(target).toMatchObject({
      ...{ method: 'POST', url: `${service.url}/verify`, header: { 'Content-Type': ['application/json'] } },
    });
    expect(Buffer.from(target.body, 'base64').toString()).toBe(bodies[7]);
  });

  it('ends when it was said', async () => {
    const [old] = makeCalls(1, 1, 1, -3600);
    expect(await (await service.post('/verify', old?.body ?? '')).json()).toMatchObject({
      error: { code: 'EXPIRED' },
    });
  });

  it('is sent by autocannon', async () => {
    const result = await autocannon({
      ...{ url: `${service.url}/verify`, connections: 2, amount: 100, method: 'POST' },
      ...{ headers: { 'content-type': 'application/json' }, body: readFileSync(at('body.json')) },
    });
    expect(result).toMatchObject({ '2xx': 100, non2xx: 0, errors: 0 });
  });

  it('is sent by wrk, which checks each answer', needs('wrk'), async () => {
    const args = ['-t2', '-c4', '-d1', '-s', at('wrk.lua')];
    expect((await run('wrk', [...args, `${service.url}/verify`])).stdout).toContain('Wrong answers: 0');
    // What it sends is looked at: to another place, every answer is wrong.
    const { stdout } = await run('wrk', [...args, `${service.url}/healthz`]);
    expect(stdout).not.toContain('Wrong answers: 0');
  });

  it('has a script for k6 that can be parsed', async () => {
    writeFileSync(at('k6.mjs'), readFileSync(at('k6.js')));
    await run(process.execPath, ['--check', at('k6.mjs')]);
    expect(readFileSync(at('k6.js'), 'utf8')).toContain(`__ENV.URL || "${service.url}/verify"`);
  });
});
