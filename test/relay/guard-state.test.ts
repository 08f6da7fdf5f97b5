import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { toCommandError } from '../../src/cli/command-error.js';
import { guard } from '../../src/cli/commands/guard.js';
import { lockFile } from '../../src/files/file-lock.js';
import { ENTRY_FILE } from '../../src/revocation/store/entry-file.js';
import { MAIN } from '../cli/drs.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { listen } from '../middleware/http.js';
import { end, firstLine } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { ECHO, startGuard, type GuardProcess } from './guard-process.js';

const SERVER = 'https://tools.example';
const around = mkdtempSync(path.join(tmpdir(), 'drs-state-'));
afterAll(() => rmSync(around, { recursive: true }));
let folders = 0;
const newFolder = () => path.join(around, `state ${folders++}`);
const fileIn = (folder: string) => path.join(folder, 'usage.jsonl');

type Chain = ReturnType<typeof liveChain>;
const chainOf = (max_calls?: number) =>
  liveChain(1, {
    cmd: '/mcp',
    policy: { allowed_tools: ['search'], ...(max_calls !== undefined && { max_calls }) },
  });
const NOTICE = 'used calls and limits begin again with each start';

const optionsFor = ({ parties }: Chain) => ['--trusted-root', parties[0]?.did ?? '', '--tool-server', SERVER];

function start(chain: Chain, state?: string, env = {}): GuardProcess {
  return startGuard([...optionsFor(chain), ...(state === undefined ? [] : ['--state', state])], ECHO, env);
}

let serial = 0;
/** A signed call, which may be sent again. */
function newCall(chain: Chain): { readonly id: number } {
  const args = { query: 'tea' };
  const bundle = encode(
    liveCall(chain, { tool: 'search', ...args }, { cmd: '/mcp/tools/call', tool_server: SERVER }),
  );
  const params = { name: 'search', arguments: args, _meta: { 'X-DRS-Bundle': bundle } };
  const id = ++serial;
  return Object.assign({ jsonrpc: '2.0', method: 'tools/call', params }, { id });
}

/** The answers that have come, by their ids: a code, or `allowed`. */
const answersOf = ({ lines }: GuardProcess) =>
  new Map(
    lines
      .filter((line) => line.startsWith('{') && !line.includes('"method":"got"'))
      .map((line) => JSON.parse(line) as { id: number; error?: { data: { code: string } } })
      .map(({ id, error }) => [id, error?.data.code ?? 'allowed']),
  );

async function ask(guard: GuardProcess, call: { readonly id: number }): Promise<string> {
  guard.lines.length = 0;
  guard.say(call);
  return eventually(() => {
    const answer = answersOf(guard).get(call.id);
    if (answer === undefined) throw new Error(`no answer; ${guard.stderr()}`);
    return answer;
  });
}

async function finish(guard: GuardProcess): Promise<void> {
  guard.process.stdin?.end();
  expect(await guard.ended).toBe(0);
}

describe('drs-verify guard --state', () => {
  it('counts limits and knows used calls over its starts', async () => {
    const [chain, state] = [chainOf(2), newFolder()];
    const calls = [newCall(chain), newCall(chain), newCall(chain)] as const;
    const first = start(chain, state);
    expect(await ask(first, calls[0])).toBe('allowed');
    await finish(first);
    expect(first.stderr()).not.toContain(NOTICE);
    const second = start(chain, state);
    expect(await ask(second, calls[0])).toBe('REPLAY_DETECTED');
    expect(await ask(second, calls[1])).toBe('allowed');
    expect(await ask(second, calls[2])).toBe('LIMIT_REACHED');
    await finish(second);
    expect(statSync(state).mode & 0o777).toBe(0o700);
    expect(statSync(fileIn(state)).mode & 0o777).toBe(0o600);
  });

  it('forgets no acknowledged call where it is killed in the middle of many, beside another', async () => {
    const [chain, state] = [chainOf(1_000), newFolder()];
    const beside = start(chain, state);
    const allowed: { readonly id: number }[] = [];
    const allowedBy = (guard: GuardProcess, calls: readonly { readonly id: number }[]) => {
      const answers = answersOf(guard);
      return calls.filter(({ id }) => answers.get(id) === 'allowed');
    };
    const ofBeside: { readonly id: number }[] = [];
    for (let round = 0; round < 3; round++) {
      const guard = start(chain, state);
      const calls = Array.from({ length: 200 }, () => newCall(chain));
      for (const [at, call] of calls.entries()) {
        guard.say(call);
        if (at % 4 > 0) continue;
        const another = newCall(chain);
        ofBeside.push(another);
        beside.say(another);
      }
      const least = 20 + 30 * round;
      await eventually(() => expect(answersOf(guard).size).toBeGreaterThan(least), 1);
      guard.process.kill('SIGKILL');
      expect(await guard.ended).toBe('SIGKILL');
      allowed.push(...allowedBy(guard, calls));
    }
    expect(allowed.length).toBeGreaterThan(100);
    await eventually(() => expect(allowedBy(beside, ofBeside)).toHaveLength(ofBeside.length));
    beside.lines.length = 0;
    for (const call of allowed) beside.say(call);
    const guard = start(chain, state);
    for (const call of ofBeside) guard.say(call);
    await eventually(() => expect(answersOf(beside).size).toBe(allowed.length));
    await eventually(() => expect(answersOf(guard).size).toBe(ofBeside.length));
    for (const one of [beside, guard])
      expect(new Set(answersOf(one).values())).toEqual(new Set(['REPLAY_DETECTED']));
    const counts = [...readFileSync(fileIn(state), 'utf8').matchAll(/"calls":(\d+)/g)].map(([, calls]) =>
      Number(calls),
    );
    expect(Math.max(...counts)).toBeGreaterThanOrEqual(allowed.length + ofBeside.length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(600 + ofBeside.length);
    for (const one of [beside, guard]) await finish(one);
  });

  it(
    'refuses calls while its file cannot be written, and allows them when it can',
    needs('prlimit'),
    async () => {
      const [chain, state] = [chainOf(2), newFolder()];
      const guard = start(chain, state);
      expect(await ask(guard, newCall(chain))).toBe('allowed');
      // Writing more to a file fails, in the middle of a line.
      const limit = (bytes: string) =>
        expect(spawnSync('prlimit', ['--pid', String(guard.process.pid), `--fsize=${bytes}`]).status).toBe(0);
      limit(`${statSync(fileIn(state)).size + 20}:`);
      const refused = newCall(chain);
      for (let times = 0; times < 2; times++)
        expect(await ask(guard, refused)).toBe('REPLAY_STORE_UNAVAILABLE');
      expect(guard.stderr()).toContain('could not record: EFBIG');
      limit('unlimited:');
      expect(await ask(guard, refused)).toBe('allowed');
      expect(await ask(guard, newCall(chain))).toBe('LIMIT_REACHED');
      await finish(guard);
    },
  );

  it('is kept over HTTP, too', async () => {
    const [chain, state] = [chainOf(), newFolder()];
    const tools = await listen((req, res) => req.resume().on('end', () => res.end('{}')));
    onTestFinished(() => tools.close());
    const call = newCall(chain);
    const callOnce = async () => {
      const to = ['--state', state, '--to', `${tools.url}/mcp`, '--listen', '127.0.0.1:0'];
      const child = spawn(process.execPath, [MAIN, 'guard', ...optionsFor(chain), ...to]);
      onTestFinished(() => end(child));
      const { url } = JSON.parse(await firstLine(child.stdout)) as { url: string };
      const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      const answer = await fetch(`${url}/mcp`, { method: 'POST', headers, body: JSON.stringify(call) });
      const text = await answer.text();
      child.kill('SIGKILL');
      return text;
    };
    expect(await callOnce()).toBe('{}');
    expect(await callOnce()).toContain('REPLAY_DETECTED');
  });

  it('is shared by guards that run at the same time', async () => {
    const [chain, state] = [chainOf(3), newFolder()];
    const guards = [start(chain, state), start(chain, state)] as const;
    const [one, two] = guards;
    const calls = Array.from({ length: 3 }, () => newCall(chain));
    for (const [at, call] of calls.entries()) {
      expect(await ask(guards[at % 2] as GuardProcess, call)).toBe('allowed');
      for (const guard of guards) expect(await ask(guard, call)).toBe('REPLAY_DETECTED');
    }
    for (const guard of guards) expect(await ask(guard, newCall(chain))).toBe('LIMIT_REACHED');
    await finish(one);
    expect(await ask(two, newCall(chain))).toBe('LIMIT_REACHED');
    // A third window, which writes the file anew; the second reads it.
    const [other, third] = [chainOf(1), start(chain, state)];
    expect(await ask(third, newCall(chain))).toBe('LIMIT_REACHED');
    expect(await ask(two, calls[0] as { readonly id: number })).toBe('REPLAY_DETECTED');
    const fourth = start(other, state);
    const last = newCall(other);
    expect(await ask(fourth, last)).toBe('allowed');
    expect(await ask(fourth, newCall(other))).toBe('LIMIT_REACHED');
    for (const guard of [two, third, fourth]) await finish(guard);
  });

  it('names the process that was stopped while it held the lock, and goes on when that does', async () => {
    const [chain, state] = [chainOf(), newFolder()];
    const guard = start(chain, state);
    expect(await ask(guard, newCall(chain))).toBe('allowed');
    // As a process does that is stopped in the middle of a write.
    const lock = await lockFile(fileIn(state), ENTRY_FILE);
    const call = newCall(chain);
    expect(await ask(guard, call)).toBe('REPLAY_STORE_UNAVAILABLE');
    const holder = `process ${process.pid} on `;
    expect(guard.lines.join()).toContain(`its file is held by ${holder}`);
    expect(guard.lines.join()).not.toContain(state);
    expect(guard.stderr()).toContain(`${fileIn(state)} is held by ${holder}`);
    const second = start(chain, state);
    expect(await second.ended).toBe(2);
    expect(second.stderr()).toMatch(
      /usage\.jsonl is in use by process \d+ .*or name another folder \(--state\)/,
    );
    await lock.close();
    expect(await ask(guard, call)).toBe('allowed');
    await finish(guard);
  });

  it('does not start on a file that it does not know', async () => {
    const [chain, state] = [chainOf(), newFolder()];
    const first = start(chain, state);
    expect(await ask(first, newCall(chain))).toBe('allowed');
    await finish(first);
    const torn = readFileSync(fileIn(state), 'utf8').slice(0, -2);
    writeFileSync(fileIn(state), torn);
    const third = start(chain, state);
    expect(await ask(third, newCall(chain))).toBe('allowed');
    expect(third.stderr()).toContain('no entry, and is cut off');
    await finish(third);
    writeFileSync(fileIn(state), 'notes of mine\n');
    const fourth = start(chain, state);
    expect(await fourth.ended).toBe(2);
    expect(fourth.stderr()).toContain('usage.jsonl:1 is no entry: ');
    expect(readFileSync(fileIn(state), 'utf8')).toBe('notes of mine\n');
  });

  it('is asked for in one line by a guard that forgets, and by no other', async () => {
    const chain = chainOf();
    const forgets = start(chain);
    expect(await ask(forgets, newCall(chain))).toBe('allowed');
    await finish(forgets);
    expect(forgets.stderr().split(NOTICE)).toHaveLength(2);
    const off = start(chain, undefined, { DRS_GATE_REPLAY: 'off' });
    expect(await ask(off, newCall(chain))).toBe('allowed');
    await finish(off);
    expect(off.stderr()).not.toContain(NOTICE);
  });

  it('is looked at by --check, which changes nothing', async () => {
    const check = (state: string) =>
      guard(['x'], { trustedRoot: ['any'], toolServer: 'any', check: true, state }).then(
        () => null,
        (thrown: unknown) => toCommandError(thrown)?.message,
      );
    const state = newFolder();
    expect(await check(state)).toBeNull();
    expect(() => statSync(state)).toThrow('ENOENT');
    mkdirSync(state);
    for (const mode of [0o777, 0o1777, 0o775]) {
      chmodSync(state, mode);
      expect(await check(state)).toMatch(/--state: others can write to .*: its permissions are 07\d\d/);
    }
    chmodSync(state, 0o755);
    expect(await check(state)).toBeNull();
    rmSync(state, { recursive: true });
    expect(await check(path.join(state, 'below'))).toContain('--state: there is no folder in which');
  });
});
