import { spawn } from 'node:child_process';
import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { Verdict } from '../../src/client/index.js';
import { showProgress, verifyLines } from '../../src/cli/verify-stream.js';
import { liveCall, liveChain, now } from '../middleware/call.js';
import { generateKey } from '../../src/issue/index.js';
import { ended, linesOf } from '../support/child.js';
import { createWorkplace, MAIN, type RunOptions, type Workplace } from './drs.js';

const chain = liveChain();
const args = { tool: 'search', query: 'tea', n: 2 ** 53 };
const bundle = liveCall(chain, args);
const text = JSON.stringify(bundle);
const withBody = (body: string) => `${text.slice(0, -1)},"body":${body}}`;
const valid = JSON.stringify(args);

let work: Workplace;
beforeAll(async () => {
  work = await createWorkplace();
});

/** Runs `verify --stream`; of each line of output, only what says what it is about. */
async function stream(options: readonly string[], run: RunOptions = {}) {
  const { code, stdout, stderr } = await work.drs(['verify', '--stream', ...options], run);
  return { code, lines: stdout.split('\n').slice(0, -1).map(brief), stdout, stderr };
}

function brief(line: string) {
  const { valid, binding, error, status } = JSON.parse(line) as Record<string, unknown>;
  return status ?? (error as { code: string } | undefined)?.code ?? binding ?? valid;
}

describe('verify --stream', () => {
  it('gives a verdict a line, in the order of files and lines', async () => {
    const foreign = JSON.stringify({ ...bundle, receipts: [] });
    await work.write('a.jsonl', `${text}\r\n${withBody(valid)}\n`);
    await work.write('b.jsonl', `${foreign}\n${withBody('{}')}`);
    expect(await stream(['a.jsonl'])).toMatchObject({ code: 0, lines: [true, 'match'], stderr: '' });
    const stdin = `${text}\n`;
    expect(await stream(['b.jsonl', '-', 'a.jsonl'], { stdin })).toMatchObject({
      code: 1,
      lines: ['EMPTY_CHAIN', 'mismatch', true, true, 'match'],
    });
    expect(await stream([], { stdin })).toMatchObject({ code: 0, lines: [true] });
    expect(await stream([])).toMatchObject({ code: 0, lines: [] });
  });

  it('sees in a body what parsing hides', async () => {
    const rounded = valid.replace('9007199254740992', '9007199254740993');
    const twice = valid.replace('{', '{"tool":"fetch",');
    const stdin = [valid, rounded, twice].map(withBody).join('\n');
    expect(await stream([], { stdin })).toMatchObject({
      code: 1,
      lines: ['match', 'invalid_body', 'invalid_body'],
    });
  });

  it('says of each line why there is no verdict, and goes on', async () => {
    const lines = [text, '', '{', Buffer.from([0x22, 0xff, 0x22]), `"${'x'.repeat(9000)}"`, '[]', text];
    const stdin = Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')]));
    expect(await stream([], { stdin, env: { MAX_BODY_BYTES: '8000' } })).toMatchObject({
      code: 2,
      lines: [true, 400, 400, 400, 413, 'MALFORMED_BUNDLE', true],
    });
  });

  it('verifies as of a time', async () => {
    const old = liveCall(liveChain(1, { iat: 1000, nbf: 1000, exp: 2000 }), args, { iat: 1500 });
    const stdin = `${JSON.stringify(old)}\n${text}\n${JSON.stringify({ ...bundle, invocation: 'a.b.c' })}`;
    const malformed = 'MALFORMED_INVOCATION';
    expect((await stream([], { stdin })).lines).toEqual(['EXPIRED', true, malformed]);
    expect((await stream(['--at', '1999'], { stdin })).lines).toEqual([true, 'NOT_YET_VALID', malformed]);
    expect((await stream(['--at', 'call'], { stdin })).lines).toEqual([true, true, malformed]);
    expect((await stream(['--at', `${now() + 86_400}`], { stdin })).lines).toContain('EXPIRED');
  });

  it('goes by the variables of the service, but records no use', async () => {
    const stdin = `${text}\n${text}\n`;
    const { code, lines } = await stream([], { stdin, env: { REPLAY_PROTECTION: 'memory' } });
    expect({ code, lines }).toEqual({ code: 0, lines: [true, true] });
    const env = { TRUSTED_ROOTS: generateKey().did };
    expect(await stream([], { stdin, env })).toMatchObject({
      code: 1,
      lines: ['UNTRUSTED_ROOT', 'UNTRUSTED_ROOT'],
    });
    const misspelt = await stream([], { stdin, env: { TRUSTED_ROOT: 'any' } });
    expect(misspelt).toMatchObject({ code: 2, lines: [] });
    expect(misspelt.stderr).toContain('TRUSTED_ROOTS');
  });

  it('cannot steer a terminal', async () => {
    const stdin = JSON.stringify({ ...bundle, bundle_version: '\u009b2J\u202e' });
    expect((await stream([], { stdin })).stdout).toMatch(/^[\x20-\x7e]+\n$/);
  });

  it.each([
    [['--stream', '--json'], "'--stream' cannot be used with option '--json'"],
    [['--stream', '--at', 'tomorrow'], 'Expected 90s'],
    [['--at', 'call', 'a.jsonl'], '--at is for a stream'],
    [['a.jsonl', 'b.jsonl'], '2 files are given, expected one bundle'],
    [['--stream', 'missing.jsonl'], 'cannot read bundles from missing.jsonl: no such file'],
    [['--stream', '.'], 'it is a directory'],
  ])('refuses %j', async (options, message) => {
    const { code, stdout, stderr } = await work.drs(['verify', ...options]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(stderr).toMatch(/hint: \S/);
  });

  it('gives a verdict when its line has come, in a process of its own', async () => {
    const child = spawn(process.execPath, [MAIN, 'verify', '--stream'], {
      env: {},
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const lines = linesOf(child.stdout);
    for (const sent of [text, withBody('{}')]) {
      child.stdin.write(`${sent}\n`);
      expect(brief((await lines.next()).value as string)).toBe(sent === text ? true : 'mismatch');
    }
    child.stdin.end();
    expect(await ended(child)).toEqual([1, null]);
  });
});

describe('a stream of verdicts', () => {
  const yes: Verdict = { valid: true, context: { root_principal: 'r', chain_depth: 1, leaf_policy: {} } };

  it('is in order and reads ahead only so far, however slow its reader is and whatever comes first', async () => {
    await work.write('many.jsonl', Array.from({ length: 3000 }, (_, at) => `${at}\n`).join(''));
    const output = new PassThrough();
    let [judged, seen, ahead] = [0, 0, 0];
    const verify = async (line: Buffer) => {
      const error = { code: line.toString() as 'EXPIRED', message: 'x'.repeat(3000), suggestion: '' };
      ahead = Math.max(ahead, ++judged - seen);
      for (let turns = judged % 7; turns > 0; turns--) await setImmediate();
      return { valid: false, error } as const;
    };
    const read = async () => {
      let text = '';
      for await (const chunk of output) {
        text += String(chunk);
        seen += String(chunk).split('\n').length - 1;
        for (let turns = 0; turns < 100; turns++) await setImmediate();
      }
      return text.trimEnd().split('\n');
    };
    const reading = read();
    expect(await verifyLines([work.path('many.jsonl')], { maxBytes: 100, verify }, output)).toBe(1);
    output.end();
    const lines = await reading;
    expect(lines.map(brief)).toEqual(Array.from({ length: 3000 }, (_, at) => `${at}`));
    // Those that are judged, and what is gathered and waits in the stream.
    expect(ahead).toBeLessThan(400);
  });

  it('ends with the first error, and leaves no promise alone', async () => {
    const output = new PassThrough();
    const verify = (line: Buffer) =>
      Number(line) < 5 ? Promise.resolve(yes) : Promise.reject(new Error(`no ${line.toString()}`));
    // It does not end: nobody may wait for more of it.
    const input = new PassThrough();
    const stdin = vi.spyOn(process, 'stdin', 'get').mockReturnValue(input as never);
    input.write('1\n2\n3\n4\n5\n6\n7\n');
    await expect(verifyLines(['-'], { maxBytes: 100, verify }, output)).rejects.toThrow('no 5');
    stdin.mockRestore();
  });
});

it('progress is shown on a terminal alone', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    const streamOf = (isTTY: boolean) => {
      const written: string[] = [];
      return { written, stream: { isTTY, write: (text: string) => written.push(text) } as never };
    };
    const [terminal, pipe] = [streamOf(true), streamOf(false)];
    const show = showProgress(terminal.stream, pipe.stream);
    show(0);
    show(1);
    vi.advanceTimersByTime(500);
    show(2);
    show(0);
    show();
    expect(terminal.written).toEqual([
      '\r\u001b[K3 lines: 1 valid, 1 not valid, 1 without a verdict',
      '\r\u001b[K4 lines: 2 valid, 1 not valid, 1 without a verdict\n',
    ]);
    showProgress(pipe.stream, pipe.stream)();
    showProgress(terminal.stream, terminal.stream)();
    expect([terminal.written.length, pipe.written.length]).toEqual([2, 0]);
  } finally {
    vi.useRealTimers();
  }
});
