import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { toCommandError } from '../../src/cli/command-error.js';
import { guard } from '../../src/cli/guard.js';
import { MAIN } from '../cli/drs.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { listen } from '../middleware/http.js';
import { firstLine } from '../support/child.js';
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

function start(chain: Chain, state?: string, env = {}): GuardProcess {
  const options = ['--trusted-root', chain.parties[0]?.did ?? '', '--tool-server', SERVER];
  return startGuard([...options, ...(state === undefined ? [] : ['--state', state])], ECHO, env);
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

async function end(guard: GuardProcess): Promise<void> {
  guard.process.stdin?.end();
  expect(await guard.ended).toBe(0);
}

describe('drs-verify guard --state', () => {
  it('counts limits and knows used calls over its starts', async () => {
    const [chain, state] = [chainOf(2), newFolder()];
    const calls = [newCall(chain), newCall(chain), newCall(chain)] as const;
    const first = start(chain, state);
    expect(await ask(first, calls[0])).toBe('allowed');
    await end(first);
    expect(first.stderr()).not.toContain(NOTICE);
    const second = start(chain, state);
    expect(await ask(second, calls[0])).toBe('REPLAY_DETECTED');
    expect(await ask(second, calls[1])).toBe('allowed');
    expect(await ask(second, calls[2])).toBe('LIMIT_REACHED');
    await end(second);
    expect(statSync(state).mode & 0o777).toBe(0o700);
    expect(statSync(fileIn(state)).mode & 0o777).toBe(0o600);
  });

  it('forgets no acknowledged call where it is killed in the middle of many', async () => {
    const [chain, state] = [chainOf(1_000), newFolder()];
    const allowed: { readonly id: number }[] = [];
    for (let round = 0; round < 3; round++) {
      const guard = start(chain, state);
      const calls = Array.from({ length: 200 }, () => newCall(chain));
      for (const call of calls) guard.say(call);
      const least = 20 + 30 * round;
      await eventually(() => expect(answersOf(guard).size).toBeGreaterThan(least), 1);
      guard.process.kill('SIGKILL');
      expect(await guard.ended).toBe('SIGKILL');
      const answers = answersOf(guard);
      allowed.push(...calls.filter(({ id }) => answers.get(id) === 'allowed'));
    }
    expect(allowed.length).toBeGreaterThan(150);
    const guard = start(chain, state);
    for (const call of allowed) guard.say(call);
    await eventually(() => expect(answersOf(guard).size).toBe(allowed.length));
    expect(new Set(answersOf(guard).values())).toEqual(new Set(['REPLAY_DETECTED']));
    const counts = [...readFileSync(fileIn(state), 'utf8').matchAll(/"calls":(\d+)/g)].map(([, calls]) =>
      Number(calls),
    );
    expect(Math.max(...counts)).toBeGreaterThanOrEqual(allowed.length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(600);
    await end(guard);
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
      await end(guard);
    },
  );

  it('forgets none over HTTP, where calls come at the same time', async () => {
    const [chain, state] = [chainOf(40), newFolder()];
    const tools = await listen((req, res) => {
      req.resume().on('end', () => res.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
    });
    onTestFinished(() => tools.close());
    const options = [
      '--trusted-root',
      chain.parties[0]?.did ?? '',
      '--tool-server',
      SERVER,
      '--state',
      state,
    ];
    const run = async () => {
      const to = ['--to', `${tools.url}/mcp`, '--listen', '127.0.0.1:0'];
      const child = spawn(process.execPath, [MAIN, 'guard', ...options, ...to], {
        env: { PATH: process.env['PATH'] },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      const { url } = JSON.parse(await firstLine(child.stdout)) as { url: string };
      return { child, url: `${url}/mcp` };
    };
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const post = async (url: string, call: object) => {
      const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(call) });
      return /"code":"([A-Z_]+)"/.exec(await answer.text())?.[1] ?? 'allowed';
    };
    const calls = Array.from({ length: 120 }, () => newCall(chain));
    const first = await run();
    let answered = 0;
    const before = await Promise.all(
      calls.slice(0, 60).map(async (call) => {
        const answer = await post(first.url, call).catch(() => 'cut');
        if (++answered === 12) first.child.kill('SIGKILL');
        return answer;
      }),
    );
    const allowed = calls.filter((_, at) => before[at] === 'allowed');
    expect(allowed.length).toBeGreaterThan(0);
    const { url } = await run();
    const again = await Promise.all(allowed.map((call) => post(url, call)));
    expect(new Set(again)).toEqual(new Set(['REPLAY_DETECTED']));
    const after = await Promise.all(calls.slice(60).map((call) => post(url, call)));
    expect(new Set(after)).toContain('LIMIT_REACHED');
    const passed = after.filter((answer) => answer === 'allowed').length;
    expect(allowed.length + passed).toBeLessThanOrEqual(40);
  });

  it('does not start on the folder of another, nor on a file that it does not know', async () => {
    const [chain, state] = [chainOf(), newFolder()];
    const first = start(chain, state);
    expect(await ask(first, newCall(chain))).toBe('allowed');
    const second = start(chain, state);
    expect(await second.ended).toBe(2);
    expect(second.stderr()).toMatch(
      /usage\.jsonl is in use by process \d+ .*or name another folder \(--state\)/,
    );
    await end(first);
    const torn = readFileSync(fileIn(state), 'utf8').slice(0, -2);
    writeFileSync(fileIn(state), torn);
    const third = start(chain, state);
    expect(await ask(third, newCall(chain))).toBe('allowed');
    expect(third.stderr()).toContain('no entry, and is cut off');
    await end(third);
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
    await end(forgets);
    expect(forgets.stderr().split(NOTICE)).toHaveLength(2);
    const off = start(chain, undefined, { DRS_GATE_REPLAY: 'off' });
    expect(await ask(off, newCall(chain))).toBe('allowed');
    await end(off);
    expect(off.stderr()).not.toContain(NOTICE);
  });

  it.each(['off', 'redis'])(
    'is refused where used calls are kept elsewhere or nowhere: %s',
    async (replay) => {
      process.env['DRS_GATE_REPLAY'] = replay;
      onTestFinished(() => void delete process.env['DRS_GATE_REPLAY']);
      const options = { trustedRoot: ['any'], toolServer: 'any', state: newFolder() };
      const error = toCommandError(await guard(['x'], options).catch((thrown: unknown) => thrown));
      expect(error?.message).toBe(
        `--state keeps what is recorded in memory, and DRS_GATE_REPLAY is "${replay}"`,
      );
      expect(error?.exitCode).toBe(2);
    },
  );

  it('is looked at by --check, which changes nothing', async () => {
    const check = (state: string) =>
      guard(['x'], { trustedRoot: ['any'], toolServer: 'any', check: true, state }).then(
        () => null,
        (thrown: unknown) => toCommandError(thrown)?.message,
      );
    const state = newFolder();
    expect(await check(state)).toBeNull();
    expect(() => statSync(state)).toThrow('ENOENT');
    expect(await check(path.join(state, 'below'))).toContain('--state: there is no folder in which');
  });
});
