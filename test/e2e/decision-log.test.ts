import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GATE_CATALOGUE } from '../../src/gate/codes.js';
import { generateKey } from '../../src/issue/index.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { withoutControls } from '../../src/verify/unprintable.js';
import { LINE_SHAPES, shapeOf } from '../../src/cli/log-lines.js';
import { recognise } from '../../web/inspect/recognise.js';
import { createWorkplace, type Workplace } from '../cli/drs.js';
import { kindOf, parse, type Line } from '../cli/log-members.js';
import { mcpChain } from '../gate/decide.js';
import { toolCall } from '../gate/attacks.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { CONSENT, makeChain } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

/** Lines, each of which must have a documented shape and no member beside. */
function shapedLines(lines: readonly Line[]): Line[] {
  for (const line of lines) expect(kindOf(line), JSON.stringify(line)).toHaveLength(1);
  return [...lines];
}

describe('the decision log', { shuffle: false }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-decided-'));
  const [file, roots] = [path.join(folder, 'decisions.jsonl'), path.join(folder, 'roots.jsonl')];
  const args = { tool: 'search', query: 's3cret' };
  const limited = liveChain(2, { policy: { allowed_tools: ['search'], max_cost_usd: 5 } });
  const long = ['a', 'é', '漢', '𝒳', '"', '\u202e'].map((unit) => {
    const text = unit.repeat(1_020 / unit.length);
    const label = text.slice(0, 256);
    const chain = liveChain(16, {
      policy: { allowed_tools: [text] },
      drs_consent: { ...CONSENT, method: text, session_id: text },
      ...{ session_id: label, correlation_id: label },
      drs_regulatory: { frameworks: Array<string>(16).fill(label), risk_level: label },
    });
    return { unit, text, chain };
  });
  const [alice = '', bot = '', helper = ''] = limited.parties.map(({ did }) => did);
  let service: RunningService;
  let work: Workplace;
  beforeAll(async () => {
    const others = [mcpChain, ...long.map(({ chain }) => chain)].map(({ parties }) => parties[0]?.did);
    const named = [alice, ...others].map((did, at) => ({ did, name: ['alice', 'mia'][at] ?? `root ${at}` }));
    writeFileSync(roots, named.map((root) => `${JSON.stringify(root)}\n`).join(''));
    work = await createWorkplace();
    service = await startService({
      ...{ DECISION_LOG: file, TRUSTED_ROOTS_FILE: roots, LOG_REFUSALS: 'all' },
      ...{ DRS_ADMIN_TOKEN: 'the-token-of-the-test', GATE_SIGNING_KEY: generateKey().toJwk().d },
    });
  });
  afterAll(async () => {
    await service.stop();
    rmSync(folder, { recursive: true });
  });

  const lineOf = (id: string) =>
    eventually(() => {
      const found = shapedLines(parse(readFileSync(file, 'utf8'))).find(({ requestId }) => requestId === id);
      expect(found).toBeDefined();
      return found as Line;
    });
  const verify = (bundle: object, id: string) => service.post('/verify', bundle, { 'X-Request-Id': id });
  const gate = (bundle: object | null, id: string, text = toolCall({ arguments: { query: 's3cret' } })) =>
    service.post('/gate/mcp', text, {
      'X-Request-Id': id,
      ...(bundle === null ? {} : { 'X-DRS-Bundle': encode(bundle) }),
    });
  const who = {
    ...{ rootPrincipal: alice, rootName: 'alice', delegates: [bot, helper], agent: helper, tool: 'search' },
    ...{ command: '/mcp/tools/call', toolServer: expect.stringMatching(/^did:key:/) as string },
  };

  it('says who allowed a call, down the whole chain, by the name of the principal', async () => {
    await verify(liveCall(limited, { ...args, estimated_cost_usd: 1 }), 'allowed');
    const line = await lineOf('allowed');
    expect(line).toMatchObject({
      ...{ endpoint: 'verify', valid: true, receipts: limited.receipts.map(digestOf), ...who },
      instance: `${hostname()}/${process.pid}`,
    });
    expect(line).not.toHaveProperty('code');
  });

  it('says why one was refused: which receipt, what was found, what was expected', async () => {
    await verify(liveCall(limited, { ...args, estimated_cost_usd: 7 }), 'too-dear');
    expect(await lineOf('too-dear')).toMatchObject({
      ...{ valid: false, block: 'D', code: 'POLICY_VIOLATION', ...who },
      message:
        'Invocation: args.estimated_cost_usd is 7, expected what max_cost_usd 5 allows, the policy of Receipt 0',
    });
    const stranger = liveChain(1);
    await verify(liveCall(stranger, args), 'stranger');
    const line = await lineOf('stranger');
    expect(line).toMatchObject({ code: 'UNTRUSTED_ROOT', rootPrincipal: stranger.parties[0]?.did });
    expect(line).not.toHaveProperty('rootName');
  });

  it.each(long)('has lines of less than 16 KiB of $unit', async ({ unit, text, chain }) => {
    const id = `long-${unit.codePointAt(0)}`;
    const claims = { tool_server: text, jti: `inv:${text}` };
    await verify(liveCall(chain, { tool: text }, claims), `${id}-allowed`);
    await verify(liveCall(chain, { tool: 'x' }, claims), `${id}-denied`);
    // Nothing of it is checked before it is refused.
    const unread = makeChain(16, Object.fromEntries([...Array(16).keys()].map((at) => [at, { aud: text }])));
    await verify(liveCall(unread, { tool: text }, claims), `${id}-unread`);
    const lines = await Promise.all(['allowed', 'denied', 'unread'].map((end) => lineOf(`${id}-${end}`)));
    expect(lines.map(({ valid }) => valid)).toEqual([true, false, false]);
    const logged = service.log.filter(({ requestId }) => String(requestId).startsWith(id));
    expect(logged).toHaveLength(2);
    for (const line of [...lines, ...logged])
      expect(Buffer.byteLength(JSON.stringify(line))).toBeLessThan(16 * 1024);
  });

  it('has no more than the place where what was found may be anything', async () => {
    const bundle = liveCall(limited, args);
    await verify({ ...bundle, bundle_version: 's3cret' }, 'version');
    await verify({ ...bundle, receipts: ['s3cret'] }, 'receipt');
    await verify(liveCall(limited, ['s3cret']), 'args');
    await verify(liveCall(limited, { tool: { s3cret: 's3cret' } }), 'tool');
    const [head, payload] = bundle.invocation.split('.');
    await verify({ ...bundle, invocation: `${head}.${payload}.c2lnbmF0dXJl` }, 'signature');
    await gate({ bundle: 's3cret' }, 'member');
    await gate(null, 'no-json', '{"s3cret');
    expect((await lineOf('version'))['message']).toBe('Bundle: bundle_version');
    expect((await lineOf('receipt'))['message']).toBe('Receipt 0');
    expect((await lineOf('args'))['message']).toBe('Invocation: args');
    expect((await lineOf('tool'))['message']).toBe('Invocation: args.tool is …');
    expect(await lineOf('signature')).toMatchObject({ block: 'C', message: 'Invocation' });
    expect(readFileSync(file, 'utf8')).not.toContain('c2lnbmF0dXJl');
    expect(await lineOf('no-json')).toMatchObject({ code: 'INVALID_JSONRPC' });
    await verify({ ...bundle, receipts: Array.from({ length: 3000 }, () => 'e30.e30.e30') }, 'deep');
    expect(await lineOf('deep')).toMatchObject({ code: 'CHAIN_TOO_DEEP', message: 'Bundle: receipts' });
    expect((await lineOf('deep'))['delegates']).toHaveLength(16);
    expect(readFileSync(file, 'utf8') + JSON.stringify(service.log)).not.toContain('s3cret');
  });

  it('has the calls without a bundle, and what a gate denies by its own rules', async () => {
    await gate(null, 'bare');
    expect(await lineOf('bare')).toEqual({
      time: expect.any(String) as string,
      ...{ instance: `${hostname()}/${process.pid}`, requestId: 'bare', address: '127.0.0.1' },
      ...{ endpoint: 'gate', code: 'MISSING_BUNDLE', tool: 'search' },
    });
    expect(await eventually(() => service.log.find(({ requestId }) => requestId === 'bare'))).toMatchObject({
      ...{ msg: 'refused', code: 'MISSING_BUNDLE', tool: 'search' },
    });
    const bundle = liveCall(mcpChain, args);
    await gate(bundle, 'first');
    await gate(bundle, 'again');
    expect(await lineOf('first')).toMatchObject({ valid: true, binding: 'match', rootName: 'mia' });
    const again = await lineOf('again');
    expect(again).toMatchObject({ valid: true, code: 'REPLAY_DETECTED', rootName: 'mia' });
    expect(again['message']).toMatch(
      /^Invocation: jti ".*" was used before, expected one that was not used$/,
    );
    expect(again).not.toHaveProperty('block');
    await gate(liveCall(mcpChain, { ...args, query: 'other' }), 'unbound');
    expect(await lineOf('unbound')).toMatchObject({
      code: 'BINDING_MISMATCH',
      message:
        'the body of the call is not what invocation.args were signed for: args.query is a string, the body has another string',
    });
  });

  it('says of a verdict whether the body is what was signed', async () => {
    await verify({ ...liveCall(limited, { ...args, estimated_cost_usd: 1 }), body: args }, 'unsigned-body');
    expect(await lineOf('unsigned-body')).toMatchObject({ valid: true, binding: 'mismatch' });
  });

  it('has no line for what passes, and one for a refund', async () => {
    await gate(null, 'passes', '{"jsonrpc":"2.0","id":1,"method":"ping"}');
    const asked = {
      ...{ protocol: 'mcp', headers: { 'X-DRS-Bundle': encode(liveCall(mcpChain, args)) } },
      body_text: toolCall({ arguments: { query: 's3cret' } }),
    };
    const answer = (await (await service.post('/v1/gate', asked)).json()) as { context_jwt: string };
    await service.post('/v1/refund', { context: answer.context_jwt }, { 'X-Request-Id': 'refund' });
    expect(await lineOf('refund')).toMatchObject({ refund: expect.any(String) as string, rootName: 'mia' });
    expect(readFileSync(file, 'utf8')).not.toContain('"passes"');
  });

  it('is read by the inspector in each of its shapes', async () => {
    await fetch(`${service.url}/admin/revoke`, { method: 'POST', body: '{}' });
    const key = generateKey().did;
    await fetch(`${service.url}/admin/revoke`, {
      ...{ method: 'POST', body: JSON.stringify({ did: key }) },
      headers: { Authorization: 'Bearer the-token-of-the-test' },
    });
    const own = service.log.filter(({ msg }) => msg === 'refused' || msg === 'admin');
    const record = parse(
      '{"time":"2027-01-15T08:00:00.000Z","instance":"h/1","endpoint":"sign","code":"EXPIRED","message":"over"}',
    );
    const question = parse(
      '{"time":"2027-01-15T08:00:00.000Z","instance":"h/1","endpoint":"approve","event":"asked","approval":{"handle":"x"}}',
    );
    const lines = shapedLines([...parse(readFileSync(file, 'utf8')), ...own, ...record, ...question]);
    const kinds = new Set<unknown>();
    for (const line of lines) {
      const shape = shapeOf(line as never);
      kinds.add(shape?.kind);
      const found = recognise(JSON.stringify(line));
      expect(found.words).toContain(shape?.words);
      expect(found.kind).toBe(line['code'] === undefined ? 'note' : 'refusal');
      if (found.kind !== 'refusal') continue;
      expect(found.refusal.code).toBe(line['code']);
      const isOfGate = GATE_CATALOGUE.some(({ code }) => code === line['code']);
      if (line['block'] !== undefined || isOfGate) expect(found.refusal.block).toBe(line['block'] ?? null);
    }
    expect([...kinds].toSorted()).toEqual(LINE_SHAPES.map(({ kind }) => kind).toSorted());
    const [allowed] = lines.filter(({ requestId }) => requestId === 'first');
    expect(recognise(JSON.stringify(allowed)).words).toBe('A line of the decision log: the call was allowed');
  });

  const log = (...options: string[]) => work.drs(['log', ...options]);
  const found = async (...options: string[]) => parse((await log(file, '--json', ...options)).stdout);

  it('is searched by key, call and code', async () => {
    const all = parse(readFileSync(file, 'utf8'));
    const idsOf = (lines: readonly Line[]) => lines.map(({ requestId }) => requestId);
    expect(await found()).toEqual(all);
    expect(idsOf(await found('--with', bot))).toEqual(
      idsOf(all.filter(({ delegates }) => (delegates as string[] | undefined)?.includes(bot) === true)),
    );
    const [first] = all.filter(({ requestId }) => requestId === 'first');
    expect(idsOf(await found('--with', String(first?.['jti'])))).toEqual(['first', 'again']);
    expect(idsOf(await found('--with', String(first?.['jti']), '--refused'))).toEqual(['again']);
    expect(idsOf(await found('--with', 'mismatch', '--refused'))).toContain('unsigned-body');
    expect(await found('--with', 'nobody')).toEqual([]);
    const { stdout } = await log(file, '--with', 'too-dear');
    expect(stdout).toMatch(
      /^\S+Z {2}POLICY_VIOLATION {2}search {2}alice {2}did:key:\S+ {2}inv:\S+\n {2}Invocation: args/,
    );
  });

  it('is counted, in files of any kind', async () => {
    const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
    await work.write('new.jsonl', lines.slice(3).join('\n'));
    await work.write('old.jsonl.gz', gzipSync(`${lines.slice(0, 3).join('\n')}\n`));
    await work.write('noise', `{"msg":"listening"}\n{"cut\n\n${'x'.repeat(70_000)}\n`);
    const of = (counts: Map<string, number>) => [...counts].toSorted().toString();
    const counted = new Map<string, number>();
    for (const { code = 'allowed', refund, binding = 'match', valid } of parse(lines.join('\n'))) {
      const isBound = code !== 'allowed' || valid !== true || binding === 'match';
      const key =
        typeof refund === 'string'
          ? `refund ${refund}`
          : isBound
            ? String(code)
            : `binding ${String(binding)}`;
      counted.set(key, (counted.get(key) ?? 0) + 1);
    }
    const files = ['new.jsonl', 'old.jsonl.gz', 'noise'];
    const { stdout, stderr, code } = await log(...files, '--by', 'code', '--json');
    const sums = parse(stdout).map((line) => [String(line['code']), Number(line['count'])] as const);
    expect(of(new Map(sums))).toBe(of(counted));
    expect([stderr, code]).toEqual(['note: 2 lines cannot be read: they were cut, or are no JSON\n', 0]);
    const plain = (await log(...files, '--refused', '--by', 'code,person,tool')).stdout;
    expect(plain).toContain('1  POLICY_VIOLATION  alice  search\n');
    expect(plain).not.toContain('allowed');
    expect((await log(file, '--since', '1h', '--by', 'day')).stdout).toBe(
      (await log(file, '--by', 'day')).stdout,
    );
    expect((await log(file, '--since', '2100-01-01T00:00:00Z')).stdout).toBe('');
  });

  it('comes from several files in the order of time, and is counted by hours in theirs', async () => {
    const line = (hour: number, agent: string) =>
      `{"time":"2027-01-15T0${hour}:00:00.000Z","endpoint":"verify","agent":"${agent}"}\n`;
    await work.write('a.jsonl', line(3, 'a') + line(6, 'a') + line(6, 'a'));
    await work.write('a.jsonl.1.gz', gzipSync(`{"cut\n${line(1, 'a')}${line(2, 'b')}`));
    await work.write('b.jsonl', line(2, 'c') + line(4, 'c') + line(5, 'c'));
    const of = async (...options: string[]) =>
      parse((await log('a.jsonl', 'a.jsonl.1.gz', 'b.jsonl', '--json', ...options)).stdout);
    const agents = (lines: readonly Line[]) => lines.map((one) => one['agent']).join('');
    expect(agents(await of())).toBe('abcaccaa');
    expect(agents(await of('--since', '2027-01-15T02:00:00Z', '--until', '2027-01-15T05:00:00Z'))).toBe(
      'bcac',
    );
    expect((await of('--by', 'agent,hour')).map(({ hour, count }) => [hour, count])).toEqual([
      ...[1, 2, 2, 3, 4, 5].map((hour) => [`2027-01-15T0${hour}`, 1]),
      ['2027-01-15T06', 2],
    ]);
  });

  it('tells what passed on trial from what was refused', async () => {
    const observed = { endpoint: 'gate', observed: true, code: 'MISSING_BUNDLE' };
    await work.write('trial', `${JSON.stringify(observed)}\n{"endpoint":"gate","code":"MISSING_BUNDLE"}\n`);
    expect((await log('trial', '--refused', '--json')).stdout).toBe(
      '{"endpoint":"gate","code":"MISSING_BUNDLE"}\n',
    );
    expect((await log('trial', '--by', 'code')).stdout).toBe(
      '1  observed MISSING_BUNDLE\n1  MISSING_BUNDLE\n',
    );
    expect((await log('trial')).stdout).toMatch(
      /^- {2}observed MISSING_BUNDLE {2}-.*\n- {2}MISSING_BUNDLE {2}-/,
    );
  });

  it('is searched by what was agreed', async () => {
    const agreed = { root_type: 'human', consent_record: 'urn:c', session_id: 's-1', correlation_id: 'k-1' };
    await work.write('agreed', `${JSON.stringify({ endpoint: 'gate', agreed })}\n{"endpoint":"gate"}\n`);
    for (const text of ['urn:c', 's-1', 'k-1'])
      expect(parse((await log('agreed', '--json', '--with', text)).stdout)).toEqual([
        { endpoint: 'gate', agreed },
      ]);
  });

  it('has the yes of a call under the digest of its statement, and is counted by what happened to questions', async () => {
    // As long as it may be, of what takes most in a line.
    const statement = '\u009b\u007f'.repeat(20_000);
    const yes = { endpoint: 'approve', event: 'approved', approval: { digest: 'd-1', statement } };
    const call = { endpoint: 'gate', approval: { statement: 'd-1', by: [{ name: 'Alice', at: 1 }] } };
    const lines = [
      yes,
      call,
      { endpoint: 'approve', event: 'asked' },
      { endpoint: 'approve', event: 'denied' },
    ];
    const escaped = lines.map((line) => withoutControls(JSON.stringify(line)));
    await work.write('yes', escaped.map((line) => `${line}\n`).join(''));
    expect(parse((await log('yes', '--json', '--with', 'd-1')).stdout)).toEqual([yes, call]);
    expect((await log('yes', '--by', 'code')).stdout.split('\n').toSorted()).toEqual([
      '',
      ...['1  allowed', '1  question approved', '1  question asked', '1  question denied'],
    ]);
    expect((await log('yes', '--refused')).stdout).toBe('');
  });

  it('is counted as far as a packed file can be read', async () => {
    const packed = gzipSync('{"endpoint":"verify"}\n'.repeat(100_000));
    await work.write('cut.gz', packed.subarray(0, packed.length - 20));
    for (const options of [[], ['--by', 'code']]) {
      const { stdout, stderr, code } = await log('cut.gz', ...options);
      const count =
        options.length > 0 ? Number(/^(\d+) {2}allowed\n$/.exec(stdout)?.[1]) : stdout.split('\n').length;
      expect(count).toBeGreaterThan(95_000);
      expect([stderr, code]).toEqual([
        expect.stringContaining('cannot read a log from cut.gz: unexpected end of file'),
        2,
      ]);
    }
  });

  it('is counted by at most 10,000 combinations, and what is more together', async () => {
    const lines = Array.from({ length: 10_003 }, (_, at) => `{"endpoint":"verify","agent":"${at}"}\n`);
    await work.write('many', lines.join(''));
    const { stdout } = await log('many', '--by', 'agent', '--json');
    expect(parse(stdout)).toHaveLength(10_001);
    expect(stdout).toMatch(/\{"count":3,"others":true\}\n$/);
    expect((await log('many', '--by', 'agent')).stdout).toMatch(
      /\n3 {2}\(more than 10000 combinations: all others\)\n$/,
    );
  });

  it.each([
    [['--by', 'code,code'], 'each once'],
    [['--by', 'shoe'], 'Expected some of code, person'],
    [['--since', 'yesterday'], 'Expected 90s'],
    [['missing'], 'cannot read a log from missing: no such file'],
    [['cut.gz'], 'cannot read a log from cut.gz: unexpected end of file'],
  ])('refuses %j', async (options, message) => {
    await work.write('cut.gz', gzipSync('{"endpoint":"verify"}\n'.repeat(99)).subarray(0, 40));
    const { code, stderr } = await log(...options);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  it('cannot steer a terminal', async () => {
    await work.write('evil', '{"endpoint":"verify","tool":"\\u001b[2J\\u202e"}\n');
    for (const options of [[], ['--json'], ['--by', 'tool']])
      expect((await log('evil', ...options)).stdout).toMatch(/^[\x20-\x7e\n]+$/);
  });
});
