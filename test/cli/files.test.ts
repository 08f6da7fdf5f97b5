import { readdir, stat, writeFile } from 'node:fs/promises';
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { Readable } from 'node:stream';
import { beforeAll, describe, expect, it } from 'vitest';
import { readText } from '../../src/cli/files.js';
import { createVerifier } from '../../src/index.js';
import { createChain, createWorkplace, INVOKE, MAIN, type Workplace, words } from './drs.js';
import { ended } from '../support/child.js';
import { needs } from '../support/programs.js';

let work: Workplace;
beforeAll(async () => {
  work = await createChain();
});

const ISSUE = ['issue', '--key', 'alice.key', '--to', 'bot.pub', '--yes'] as const;
const issueBy = (key: string, to = 'bot.pub') => ['issue', '--key', key, '--to', to, '--tool', 'a'];
const modeOf = async (name: string) => (await stat(work.path(name))).mode & 0o777;

it('reads no more of an endless standard input than 64 MiB', async () => {
  const { stdin } = process;
  const chunk = Buffer.alloc(1024 * 1024, '[');
  const endless = new Readable({ read: () => endless.push(chunk) });
  Object.defineProperty(process, 'stdin', { value: endless });
  try {
    await expect(readText('-', 'a bundle')).rejects.toThrow(
      'standard input has more than 64 MiB, expected a bundle of at most that',
    );
    expect(endless.destroyed).toBe(true);
  } finally {
    Object.defineProperty(process, 'stdin', { value: stdin });
  }
});

it('takes files as editors of Windows write them, but for UTF-16, which it names', async () => {
  const rewritten = async (name: string, encode: (text: string) => Buffer) => {
    const copy = `windows-${name}`;
    await writeFile(work.path(copy), encode(await work.read(name)), { mode: 0o600 });
    return copy;
  };
  const withMark = (text: string) => Buffer.from(`\ufeff${text.replaceAll('\n', '\r\n')}`);
  const utf16 = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le');
  await work.write('args.json', '{"tool":"search","estimated_cost_usd":0.02}\n');
  const call = async (encode: (text: string) => Buffer) =>
    work.drs([
      ...['invoke', '--key', await rewritten('bot.key', encode), '--tool-server', 'https://tools.example'],
      ...[
        '--chain',
        await rewritten('root.jwt', encode),
        '--args',
        `@${await rewritten('args.json', encode)}`,
      ],
    ]);
  expect(await call(withMark)).toMatchObject({ code: 0, stderr: '' });
  const refused = await call(utf16);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain(
    'cannot read a private key (JWK) from windows-bot.key: it is UTF-16, expected UTF-8',
  );
});

describe('keygen', () => {
  it('writes a private key for its owner alone, and a public one', async () => {
    expect(await modeOf('alice.key')).toBe(0o600);
    const secret = JSON.parse(await work.read('alice.key')) as Record<string, string>;
    const open = JSON.parse(await work.read('alice.pub')) as Record<string, string>;
    expect(Object.keys(secret).sort()).toEqual(['crv', 'd', 'kid', 'kty', 'x']);
    expect(open).toEqual({ kty: 'OKP', crv: 'Ed25519', kid: secret['kid'], x: secret['x'] });
  });

  it('prints the DID and never the secret', async () => {
    const { stdout, stderr } = await work.done('keygen', '-o', 'new.key');
    const { kid = '', d = '' } = JSON.parse(await work.read('new.key')) as Record<string, string>;
    expect(stdout).toBe(`${kid}\n`);
    expect(stdout + stderr).not.toContain(d);
  });

  it('keeps files that exist', async () => {
    const before = [await work.read('alice.key'), await work.read('alice.pub')];
    const { code, stderr } = await work.drs(['keygen', '-o', 'alice.key']);
    expect(code).toBe(2);
    expect(stderr).toContain('alice.key exists already');
    await work.write('only.pub', 'mine');
    expect((await work.drs(['keygen', '-o', 'only.key'])).code).toBe(2);
    expect(existsSync(work.path('only.key'))).toBe(false);
    expect([await work.read('alice.key'), await work.read('alice.pub')]).toEqual(before);
  });

  it('replaces them with --force, and then for its owner alone as well', async () => {
    await work.write('open.key', 'an old file that everyone can read');
    await work.done('keygen', '-o', 'open.key', '--force');
    expect(await modeOf('open.key')).toBe(0o600);
    expect(await work.read('open.key')).toContain('"kty"');
  });

  it('does not print a private key', async () => {
    const { code, stdout } = await work.drs(['keygen', '-o', '-']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });
});

describe('issue', () => {
  const consentOf = (jwt: string) =>
    (JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()) as { drs_consent: object })
      .drs_consent;

  it('shows the text of the person beside the policy in plain words, and signs its hash', async () => {
    await work.write('consent.txt', 'You let Bot search.\u001b[2J\nOnly that.');
    const { stdout, stderr } = await work.done(...ISSUE, '--tool', 'search', '--consent-text', 'consent.txt');
    expect(stderr).toContain('You agree to this:\n  You let Bot search.\\u{1b}[2J\n  Only that.\n');
    expect(stderr).toMatch(/which gives:\n {2}I let did:key:z6Mk\w+ call tools for me, from 20/);
    expect(stderr).toContain('  It may\n  - use only this tool: "search"\n');
    const hash = spawnSync('sha256sum', [work.path('consent.txt')])
      .stdout.toString()
      .slice(0, 64);
    expect(consentOf(stdout)).toMatchObject({ policy_hash: `sha256:${hash}`, locale: 'en' });
  });

  it('names another command than that of tools as it is', async () => {
    const { stderr } = await work.done(...ISSUE, '--tool', 'search', '--cmd', '/acme/"read"');
    expect(stderr).toContain(
      String.raw`act for me in calls whose name is "/acme/\"read\"", or begins with "/acme/\"read\"/", from 20`,
    );
  });

  it('shows the policy in plain words, and signs the hash of exactly that', async () => {
    const { stdout, stderr } = await work.done(...ISSUE, '--max-cost', '5');
    const [, shown = ''] = /^You agree to this:\n((?: {2}.+\n)+)note: /.exec(stderr) ?? [];
    expect(shown).toContain('  It may\n  - use any tool\n  - make calls that cost at most 5 US dollars\n');
    const text = shown.replace(/^ {2}/gm, '').trimEnd();
    const hash = createHash('sha256').update(text).digest('hex');
    expect(consentOf(stdout)).toMatchObject({ policy_hash: `sha256:${hash}` });
  });

  it('refuses without --yes where nobody can be asked, and says what to do', async () => {
    const args = [...ISSUE.filter((word) => word !== '--yes'), '--tool', 'a', '-o', 'unasked.jwt'];
    const { code, stdout, stderr } = await work.drs(args, { stdin: 'y\n' });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/not a terminal\n {2}hint: .*add --yes\n$/);
    expect(existsSync(work.path('unasked.jwt'))).toBe(false);
  });

  it('refuses a policy that limits nothing, before it asks', async () => {
    const { code, stderr } = await work.drs([...ISSUE, '--policy', '{"allowed_tool":["search"]}']);
    expect(code).toBe(2);
    expect(stderr).toContain('the members are allowed_tools, max_cost_usd, ');
    expect(stderr).not.toContain('You agree');
  });

  it('refuses a time in milliseconds', async () => {
    const { code, stderr } = await work.drs([
      ...ISSUE,
      '--tool',
      'a',
      '--expires',
      String(Date.now() + 60_000),
    ]);
    expect(code).toBe(2);
    expect(stderr).toContain('expected Unix seconds, not milliseconds');
  });

  it('says who can revoke what has no status list index', async () => {
    const without = await work.done(...ISSUE, '--tool', 'a');
    expect(without.stderr).toContain('only those who run verifiers can revoke it');
    const withIndex = await work.done(...ISSUE, '--tool', 'a', '--status-index', '7');
    expect(withIndex.stderr).not.toContain('revoked');
    const delegate = ['delegate', '--key', 'bot.key', '--chain', 'root.jwt', '--to', 'helper.pub'];
    expect((await work.done(...delegate)).stderr).toContain('only those who run verifiers can revoke it');
    expect((await work.done(...delegate, '--status-index', '8')).stderr).not.toContain('note:');
  });

  it('says where the counts of a receipt are forgotten before it ends', async () => {
    const service = [...ISSUE, '--tool', 'a', '--root-type', 'service'];
    const counted = await work.done(...service, '--expires', 'never', '--max-calls', '3');
    expect(counted.stderr).toContain('400 days after the last call');
    for (const harmless of [
      ['--expires', 'never'],
      ['--max-calls', '3'],
    ])
      expect((await work.done(...service, ...harmless)).stderr).not.toContain('400 days');
  });

  it('puts every option into the policy', async () => {
    const { stdout: jwt } = await work.done(
      ...[...ISSUE, ...words('--policy {"acme:region":"eu","max_calls":9} --tool a --tool b --max-cost 0.5')],
      ...words(
        '--max-calls 3 --max-total-cost 2.5 --max-delegations 0 --resource file:///x/* --data-class public --deny-pii --deny-write',
      ),
      ...['--cmd', '/a2a/send', '--not-before', '4070908800', '--expires', '2099-01-01T02:00+01:00'],
    );
    expect(JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString())).toMatchObject({
      cmd: '/a2a/send',
      nbf: 4_070_908_800,
      exp: 4_070_908_800 + 3600,
      policy: {
        'acme:region': 'eu',
        allowed_tools: ['a', 'b'],
        max_cost_usd: 0.5,
        max_calls: 3,
        max_total_cost_usd: 2.5,
        max_delegations: 0,
        allowed_resources: ['file:///x/*'],
        allowed_data_classes: ['public'],
        pii_access: false,
        write_access: false,
      },
    });
  });

  it('wants a limit, or to be told that there is none', async () => {
    const { code, stderr } = await work.drs(ISSUE);
    expect(code).toBe(2);
    expect(stderr).toContain('no limit was given');
    expect((await work.drs([...ISSUE, '--policy', '{}'])).code).toBe(0);
  });
});

describe('delegate', () => {
  it('keeps what is not mentioned, and reads a chain from standard input', async () => {
    const stdin = await work.read('root.jwt');
    const args = ['delegate', '--key', 'bot.key', '--chain', '-', '--to', 'helper.pub', '--deny-write'];
    const { code, stdout, stderr } = await work.drs(args, { stdin });
    expect(code).toBe(0);
    // The words of `issue`.
    expect(stderr).toMatch(
      /^You pass this on:\n {2}I let did:key:z6Mk\w+ call tools for me, from 20.*\n {2}It may\n/,
    );
    expect(stderr).toContain(
      "  It may not\n  - change things\n  - make a call that does not say what it costs, whether it changes things, unless the tool's operator does\n",
    );
    const [first, second] = stdout.split('\n');
    expect(first).toBe(stdin.trim());
    expect(JSON.parse(Buffer.from(second?.split('.')[1] ?? '', 'base64url').toString())).toMatchObject({
      policy: { allowed_tools: ['search', 'fetch'], max_cost_usd: 5, write_access: false },
    });
  });
});

const GUARD = ['guard', '--trusted-root', 'x', '--tool-server', 'any'];

describe('exit code 2, and a hint, for', () => {
  const cases: [string, readonly string[], string][] = [
    ['no command', [], 'Usage: drs-verify'],
    ['an unknown command', ['verfy'], 'Did you mean verify?'],
    ['help on an unknown command', ['help', 'verfy'], 'Did you mean verify?'],
    ['an unknown option', ['verify', 'x', '--jsn'], 'Did you mean --json?'],
    [
      'a limit given twice',
      [...ISSUE, '--max-cost', '1', '--max-cost', '100'],
      "option '--max-cost <usd>' is given twice, expected once",
    ],
    ["an option of guard's server is not guard's", [...GUARD, 'cat', '--help'], '(DRS_TRUSTED_ROOTS) is "x"'],
    [
      'a private key to be verified',
      ['verify', 'alice.key'],
      'alice.key has neither receipts nor an invocation, expected a bundle',
    ],
    ['a file that is neither chain nor bundle', ['audit', 'args.json'], 'neither receipts nor an invocation'],
    ['an empty input', ['audit', '-'], 'standard input is not a bundle'],
    ['a file without end', ['audit', '/dev/zero'], '/dev/zero has more than 64 MiB, expected a bundle'],
    ['a private key with a public name', ['keygen', '-o', 'wrong.pub'], 'name it wrong.key'],
    ['no file', ['verify'], "missing required argument 'bundle_file'"],
    ['a missing option', ['keygen'], "required option '-o, --out <file>' not specified"],
    ['an index that is none', ['revoke', '--index', '1.5'], 'Expected an integer'],
    ['an index beyond 2^53-1', ['revoke', '--index', '9007199254740992'], 'Expected an integer'],
    ['a negative index', ['revoke', '--index', '-1'], 'Expected an integer'],
    ['a tool without a name', [...ISSUE, '--tool', ''], 'Expected a name, not an empty text'],
    ['a cost that is no number', [...ISSUE, '--max-cost', 'five'], 'Expected a number'],
    ['a time that is none', [...ISSUE, '--tool', 'a', '--expires', 'tomorrow'], 'Expected 90s, 30m'],
    [
      'a time without a zone',
      [...ISSUE, '--tool', 'a', '--expires', '2030-01-01T00:00'],
      'Expected 90s, 30m',
    ],
    ['a policy that is not JSON', [...ISSUE, '--policy', '{tools}'], '--policy is not a JSON object'],
    ['a policy that names a member twice', [...ISSUE, '--policy', '{"a":1,"a":2}'], 'occurs twice'],
    ['arguments that would be rounded', [...INVOKE, '--args', '{"n":9007199254740993}'], '9007199254740993'],
    ['a key that is not there', issueBy('x.key'), 'no such file'],
    ['a public key to sign with', issueBy('bot.pub'), 'bot.pub: the JWK holds only a public key'],
    ['a key file that is no key', issueBy('args.json'), 'args.json: this is not an Ed25519 key'],
    ['a key file that is not JSON', issueBy('root.jwt'), 'is not JSON'],
    ['a DID of another method', issueBy('bot.key', 'did:web:x'), 'did:web:x'],
    [
      'a chain that is none',
      ['delegate', '--key', 'bot.key', '--chain', 'args.json', '--to', 'bot.pub'],
      'not a chain',
    ],
    ['an output that exists', [...ISSUE, '--tool', 'a', '-o', 'root.jwt'], 'root.jwt exists already'],
    [
      'an output that cannot be',
      [...ISSUE, '--tool', 'a', '-o', 'no/such/place'],
      'cannot write no/such/place',
    ],
    ['an input that is a directory', ['verify', '.'], 'it is a directory'],
  ];
  it.each(cases)('%s', async (_, args, message) => {
    const { code, stdout, stderr } = await work.drs(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    if (args.length > 0) expect(stderr).toMatch(/hint: \S/);
  });
});

// Most command lines here share one process.
it.each([
  ['an audit', 0, ['audit', 'bundle.json']],
  ['a chain from standard input', 0, ['audit', '-']],
  ['a refusal', 1, ['delegate', '--key', 'alice.key', '--chain', 'root.jwt', '--to', 'bot.pub']],
  ['a missing option', 2, ['keygen']],
  ['no service', 2, ['verify', 'bundle.json']],
])('%s prints the same in a process of its own, and ends it', async (_, code, args) => {
  // Port 9 (discard) is below the range from which systems lend ports, and nothing listens there.
  const options = { stdin: await work.read('root.jwt'), env: { DRS_VERIFY_URL: 'http://127.0.0.1:9' } };
  const alone = await work.drsAlone(args, options);
  expect(alone.code).toBe(code);
  expect(await work.drs(args, options)).toEqual(alone);
});

it('exit code 1 for a refusal, which overwrites nothing', async () => {
  const args = words('delegate --key alice.key --chain root.jwt --to bot.pub -o refused.jwt');
  const { code, stdout, stderr } = await work.drs(args);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain('ISSUER_MISMATCH');
  expect(existsSync(work.path('refused.jwt'))).toBe(false);
});

it('a command whose output exists signs nothing, and asks nothing', async () => {
  const agreed = await work.drs([...ISSUE, '--tool', 'a', '--yes', '-o', 'root.jwt']);
  expect(agreed.code).toBe(2);
  expect(agreed.stderr).toMatch(/^drs-verify: root\.jwt exists already\n/);
});

it('a key file with a secret in the wrong place is not quoted', async () => {
  const secret = (JSON.parse(await work.read('alice.key')) as { d: string }).d;
  await work.write('torn.key', `{"kty":"OKP","d":"${secret}`);
  await work.write('short.key', JSON.stringify({ kty: 'OKP', crv: 'Ed25519', x: 'AA', d: secret }));
  for (const file of ['torn.key', 'short.key']) {
    const { code, stdout, stderr } = await work.drs([
      'issue',
      '--key',
      file,
      ...words('--to bot.pub --tool a'),
    ]);
    expect(code).toBe(2);
    expect(stdout + stderr).not.toContain(secret.slice(0, 8));
  }
});

describe('help', () => {
  it('--help and --version end well', async () => {
    const help = await work.done('--help');
    const names = ['serve', 'log', 'verify', 'audit', 'keygen', 'issue', 'delegate', 'invoke', 'revoke'];
    for (const name of names) expect(help.stdout).toMatch(new RegExp(`^  ${name} `, 'm'));
    for (const { stdout } of await Promise.all(names.map((name) => work.done(name, '--help')))) {
      expect(stdout).toContain('Examples:\n');
      // Broken by hand and by commander, text has lines of one or two words.
      const [, description = ''] = stdout.split('\n\n');
      for (const [, words = '', next = ''] of description.matchAll(/^(.*[^.:])\n(\S+)/gm))
        expect(words.length + next.length, words).toBeGreaterThan(78);
    }
    expect((await work.done('sign', '--help')).stdout).not.toContain('[]');
    expect((await work.done('--version')).stdout).toMatch(
      /^\d+\.\d+\.\d+ \(commit ([0-9a-f]{40}(-dirty)?|unknown)\)\n$/,
    );
  });

  it('holds a first session that works', async () => {
    const { stdout } = await work.done('--help');
    const session = stdout.slice(
      stdout.indexOf('  npx drs-verify keygen'),
      stdout.indexOf('  npx drs-verify verify'),
    );
    const place = await createWorkplace();
    const script = `npx() { shift; "${process.execPath}" "${MAIN}" "$@"; }\nset -e\n${session}\nnpx drs-verify audit bundle.json`;
    const { status, stdout: shown } = spawnSync('sh', ['-c', script], {
      cwd: place.directory,
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    expect(shown).toMatch(/args\.query +"tea"/);
  });
});

// `script` of util-linux runs a command in a terminal. There is no other way to have one in a test.
describe('on a terminal, a person is asked', needs('script'), () => {
  const answer = (text: string) =>
    spawnSync(
      'script',
      [
        '-qec',
        `"${process.execPath}" "${MAIN}" issue --key alice.key --to bot.pub --tool a -o asked-${text}.jwt`,
        '/dev/null',
      ],
      {
        cwd: work.directory,
        env: { PATH: process.env['PATH'], TERM: 'dumb' },
        encoding: 'utf8',
        input: `${text}\n`,
      },
    );

  it('y issues', () => {
    const { status, stdout } = answer('y');
    expect(stdout).toContain('use only this tool: "a"');
    expect(stdout).toContain('Do you agree? [y/N]');
    expect(status).toBe(0);
    expect(existsSync(work.path('asked-y.jwt'))).toBe(true);
  });

  it.each([
    ['Ctrl-C', '\u0003'],
    ['Ctrl-D', '\u0004'],
  ])('%s ends quietly', async (_, sign) => {
    const command = `"${process.execPath}" "${MAIN}" issue --key alice.key --to bot.pub --tool a -o asked.jwt`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      cwd: work.directory,
      env: { PATH: process.env['PATH'], TERM: 'dumb' },
    });
    let shown = '';
    child.stdout.on('data', (chunk: Buffer) => {
      // Before the question, the terminal itself acts on these signs.
      const wasAsked = shown.includes('[y/N]');
      shown += chunk.toString();
      if (!wasAsked && shown.includes('[y/N]')) child.stdin.write(sign);
    });
    expect(await ended(child)).toEqual([1, null]);
    expect(shown).toContain('nothing was issued');
    expect(shown).not.toMatch(/AbortError|node:/);
  });

  it.each(['n', 'maybe'])('%s does not', (text) => {
    const { status, stdout } = answer(text);
    expect(stdout).toContain('nothing was issued');
    expect(status).toBe(1);
    expect(existsSync(work.path(`asked-${text}.jwt`))).toBe(false);
  });
});

it('leaves nothing where a file cannot be written whole', async () => {
  // As on a full disk: not even a byte can be written.
  const script = `ulimit -f 0; exec "${process.execPath}" "${MAIN}" issue --key alice.key --to bot.pub --tool a --yes -o whole.jwt`;
  const { status, stderr } = spawnSync('sh', ['-c', script], { cwd: work.directory, encoding: 'utf8' });
  expect([status, stderr]).toEqual([2, expect.stringContaining('cannot write whole.jwt') as string]);
  const found = await readdir(work.directory);
  expect(found.filter((name) => name.startsWith('whole'))).toEqual([]);
});

it('notes a name that looks like several', async () => {
  const { code, stderr } = await work.drs([...ISSUE, '--tool', 'read,write', '--data-class', 'a']);
  expect(code).toBe(0);
  expect(stderr).toContain(
    'note: "read,write" is one name with a comma in it; for several, repeat the option\n',
  );
  expect((await work.drs([...ISSUE, '--tool', 'read', '--tool', 'write'])).stderr).not.toContain('comma');
});

describe('colours', needs('script'), () => {
  const onTerminal = (env: Record<string, string>) =>
    spawnSync('script', ['-qec', `"${process.execPath}" "${MAIN}" audit bundle.json`, '/dev/null'], {
      cwd: work.directory,
      env: { PATH: process.env['PATH'], TERM: 'xterm', ...env },
      encoding: 'utf8',
    }).stdout;

  it('are for a terminal', async () => {
    expect(onTerminal({})).toContain('\u001b[');
    const { stdout } = await work.drs(['audit', 'bundle.json'], {
      env: { FORCE_COLOR: '1', CI: '1', TERM: 'xterm' },
    });
    expect(stdout).not.toContain('\u001b[');
  });

  it('are not where NO_COLOR is set, nor on a dumb terminal', () => {
    expect(onTerminal({ NO_COLOR: '1' })).not.toContain('\u001b[');
    expect(onTerminal({ TERM: 'dumb' })).not.toContain('\u001b[');
    expect(onTerminal({ NO_COLOR: '' })).toContain('\u001b[');
  });
});

it('a reader that stops early is no error', async () => {
  // More than a pipe can hold, so that the command is still writing when its reader exits.
  await work.write('long.jwt', 'a.b.c\n'.repeat(5000));
  const script = `"${process.execPath}" "${MAIN}" audit long.jwt | head -n 1`;
  const { stdout, stderr } = spawnSync('sh', ['-c', script], { cwd: work.directory, encoding: 'utf8' });
  expect(stdout).toBe('5000 receipts, no invocation\n');
  expect(stderr).toBe('');
});

it('signs what a call belongs to, as root and invocation say it, and refuses what is no such thing', async () => {
  const rules = '{"frameworks":["GDPR"],"risk_level":"low","retention_days":30}';
  await work.drs([
    ...ISSUE,
    '--tool',
    'search',
    '--regulatory',
    rules,
    '--session-id',
    's-1',
    '-o',
    'ruled.jwt',
  ]);
  const invoke = [
    'invoke',
    '--key',
    'bot.key',
    '--chain',
    'ruled.jwt',
    '--tool-server',
    'https://tools.example',
  ];
  const args = ['--args', '{"tool":"search"}', '--correlation-id', 'order-7'];
  const { stdout } = await work.drs([...invoke, ...args]);
  const verifier = createVerifier({ workerThreads: 0 });
  expect(await verifier.verify({ ...(JSON.parse(stdout) as object), details: true })).toMatchObject({
    valid: true,
    details: { session_id: 's-1', correlation_id: 'order-7', regulatory: JSON.parse(rules) as unknown },
  });
  await verifier.close();
  for (const odd of ['{"framework":["GDPR"]}', '{"risk_level":7}']) {
    const { code, stdout: none } = await work.drs([...invoke, ...args, '--regulatory', odd]);
    expect([code === 0, none]).toEqual([false, '']);
  }
});
