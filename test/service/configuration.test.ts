import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  readConfiguration,
  VARIABLES,
  warningsAbout,
  warningsAboutIdle,
  warningsAboutMemory,
} from '../../src/service/configuration/configuration.js';
import { variableOf } from '../../src/service/configuration/environment.js';
import { withTables } from '../../scripts/configuration-docs.mjs';
import { describeVariables } from '../../src/cli/variables.js';
import { isTypoOf } from '../../src/service/configuration/environment.js';
import { printableUrl } from '../../src/revocation/printable-url.js';
import { problemsOf } from './problems-of.js';

const did = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';

describe('the configuration', () => {
  it('has the defaults of the specification', () => {
    expect(readConfiguration({})).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      maxBodyBytes: 1_048_576,
      maxChainDepth: 16,
      clockSkewSecs: 30,
      expiryGraceSecs: 0,
      statusCacheTtlSecs: 300,
      statusMaxStaleSecs: 0,
      rateLimitPerIp: 0,
      rateLimitGlobal: 0,
      maxBodyMemory: 134_217_728,
      requestTimeoutSecs: 10,
      shutdownDelaySecs: 0,
      shutdownGraceSecs: 10,
    });
  });

  it('gives bodies memory in proportion to their size', () => {
    expect(readConfiguration({ MAX_BODY_BYTES: '100000000' }).maxBodyMemory).toBe(400_000_000);
    expect(problemsOf({ MAX_BODY_BYTES: '1000', MAX_BODY_MEMORY: '3999' })).toEqual([
      'MAX_BODY_MEMORY is "3999": expected at least four times MAX_BODY_BYTES (1000)',
    ]);
  });

  it('reads numbers, lists and text that looks like a number', () => {
    expect(
      readConfiguration({ MAX_PENDING: '7', DRS_ADMIN_TOKEN: '12345678', SERVER_IDENTITY: '42' }),
    ).toMatchObject({
      maxPending: 7,
      drsAdminToken: '12345678',
      serverIdentity: '42',
    });
    const origins = [
      'https://app.example',
      'tauri://localhost',
      'vscode-webview://0abc',
      'chrome-extension://abc',
    ];
    expect(readConfiguration({ ALLOWED_ORIGINS: origins.join() }).allowedOrigins).toEqual(origins);
    expect(readConfiguration({ TRUSTED_ROOTS: did }).trustedRoots).toEqual([did]);
    expect(readConfiguration({ TRUSTED_ROOTS: `${did}, ${did}` }).trustedRoots).toEqual([did, did]);
  });

  it.each([
    ['PORT', '0x10'],
    ['PORT', '1e3'],
    ['PORT', '8080.0001'],
    ['MAX_CHAIN_DEPTH', '0'],
    ['STATUS_LIST_ISSUER', 'did:key:x'],
    ['TRUSTED_ROOTS', ','],
    ['STATUS_LIST_BASE_URL', 'example.org/list'],
    ['ALLOWED_ORIGINS', 'https://app.example/'],
    ['ALLOWED_ORIGINS', 'null'],
    ['ALLOWED_ORIGINS', 'tauri://localhost/'],
    ['ALLOWED_ORIGINS', 'file:///page'],
    ['ALLOWED_ORIGINS', 'https://app.example,app.example'],
    ['REQUEST_TIMEOUT_SECS', '0'],
    ['MAX_CONNECTIONS', '0'],
  ])('refuses %s=%s and names it', (variable, value) => {
    const problems = problemsOf({ [variable]: value });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${variable} is "${value}": .`));
  });

  it('says of each value what was expected, and of a list what was found in it', () => {
    for (const [variable, value, says] of [
      ['PORT', '70000', 'expected a whole number, 0 to 65535'],
      ['MAX_BODY_BYTES', '1MB', 'expected a whole number of bytes, 1 to 268435456'],
      ['MAX_PENDING', '-1', 'expected a whole number, at least 1'],
      ['LOG_REFUSALS', 'some', 'expected one of "all", "sampled", "off"'],
      ['SHARE_PORT', 'yes', 'expected true or false'],
      [
        'READY_WITHOUT',
        ',',
        'expected a list of at least one, each stale_list, list, revocations, replay, none',
      ],
      [
        'GATE_PASS_METHODS',
        'acme/x,y z',
        'expected the name of a method such as acme/search, and not tools/call, found "y z"',
      ],
      [
        'ALLOWED_ORIGINS',
        'x,https://a.example,y',
        'expected an origin such as https://app.example, found "x"; expected an origin such as https://app.example, found "y"',
      ],
    ] as const)
      expect(problemsOf({ [variable]: value })).toEqual([`${variable} is ${JSON.stringify(value)}: ${says}`]);
  });

  it('reads flags in two spellings', () => {
    for (const [text, isShared] of [
      ['1', true],
      ['true', true],
      ['0', false],
      ['false', false],
    ] as const)
      expect(readConfiguration({ SHARE_PORT: text, GATE_REPLAY: 'off' }).sharePort).toBe(isShared);
    for (const text of ['constructor', 'TRUE', '2']) expect(problemsOf({ SHARE_PORT: text })).toHaveLength(1);
  });

  it.each(['has space', 'tab\there', 'snow\u2603man'])('refuses the admin token %j, unseen', (token) => {
    const problems = problemsOf({ DRS_ADMIN_TOKEN: token });
    expect(problems).toEqual([expect.stringMatching(/^DRS_ADMIN_TOKEN is \(hidden\): .*white space/)]);
    expect(problems[0]).not.toContain(token);
  });

  it.each([
    ['STATUS_LIST_BASE_URL', 'ftp://me:pa55@lists.example/1?key=k3y'],
    ['STATUS_LIST_BASE_URL', 'me:pa55@lists.example/1?key=k3y'],
    ['STATUS_LIST_BASE_URL', '//me:p@55@lists.example/1?key=k3y'],
    ['REDIS_URL', 'http://me:pa55@redis.example/1?key=k3y'],
  ])('shows no secret of %s=%s', (variable, value) => {
    const [problem = ''] = problemsOf({ [variable]: value });
    expect(problem).toMatch(new RegExp(`^${variable} is "`));
    expect(problem).not.toMatch(/me:|pa55|p@55|k3y/);
    expect(problem).toMatch(/(lists|redis)\.example/);
  });

  it('refuses variables that are one slip away from one of ours, by name', () => {
    for (const [found, meant] of [
      ['TRUSTED_ROOT', 'TRUSTED_ROOTS'],
      ['TRUSTED_ROOTSS', 'TRUSTED_ROOTS'],
      ['TRUSTDE_ROOTS', 'TRUSTED_ROOTS'],
      ['TRUSTED-ROOTS', 'TRUSTED_ROOTS'],
      ['DRS_ADMIN_TOKEM', 'DRS_ADMIN_TOKEN'],
      // What the public implementation calls it.
      ['NONCE_STORE_BACKEND', 'REPLAY_PROTECTION'],
      ['NONCE_STORE_TTL_SECS', 'REPLAY_WINDOW_SECS'],
      ['NONCE_STORE_MAX_ENTRIES', 'REPLAY_MAX_ENTRIES'],
      ['LISTEN_ADDR', 'HOST and PORT'],
      ['DRS_REQUIRE_BINDING', 'REQUIRE_BINDING'],
      // What it was called.
      ['PROCESSES', 'SHARE_PORT'],
      ['MAX_BATCH', 'MAX_BODY_MEMORY'],
      ['GATE_METHODS', 'GATE_PASS_METHODS'],
    ] as const)
      expect(problemsOf({ [found]: 'x' })).toEqual([
        `${found} is not a variable of drs-verify, expected ${meant}: rename it, or unset it`,
      ]);
    for (const found of ['STORE_DIR', 'TSA_URL', 'S3_BUCKET', 'INSPECTOR', 'VERIFY_NATIVE', 'QUEUE_BURST_MS'])
      expect(problemsOf({ [found]: 'x' })).toEqual([
        `${found} is not a variable of drs-verify, and there is none for it: unset it`,
      ]);
    // Short names are too close to other programs' own, an empty variable counts as unset.
    expect(problemsOf({ HOSTS: 'x', POST: 'x', TRUSTED_ROOT: '', RUSTED_ROOT: 'x', PATH: '/bin' })).toEqual(
      [],
    );
    // Of the proxies, others have chosen the names.
    const ours = VARIABLES.filter((name) => !name.endsWith('_PROXY') || name === 'TRUST_PROXY');
    for (const name of ours) expect(VARIABLES.filter((other) => isTypoOf(name, other))).toEqual([name]);
  });

  it('takes proxies in either case where there is a status list, and refuses them by name', () => {
    const list = { STATUS_LIST_BASE_URL: 'https://lists.example/1' };
    const right = {
      HTTP_PROXY: 'http://p:3128',
      http_proxy: 'http://q:3128',
      no_proxy: 'a,10.0.0.0/8',
      HTTPS_PROXY: ' ',
    };
    expect(readConfiguration({ ...list, ...right })).toMatchObject({
      httpProxy: 'http://q:3128',
      noProxy: 'a,10.0.0.0/8',
    });
    const wrong = { HTTP_PROXY: 'proxy.corp:3128', https_proxy: 'me:pw@proxy', NO_PROXY: 'http://a' };
    expect(problemsOf({ ...list, ...wrong })).toEqual([
      expect.stringMatching(/^HTTP_PROXY is "proxy\.corp:3128": expected an http or https URL/),
      expect.stringMatching(/^https_proxy is "proxy": expected/),
      expect.stringMatching(/^NO_PROXY is "http:\/\/a": expected \*, or a list/),
    ]);
    // They are for other programs, like all that begin so.
    expect(problemsOf({ ...wrong, NO_COLOR: '1', HTTP_TIMEOUT: '1' })).toEqual([]);
    expect(warningsAboutIdle(right, readConfiguration(right))).toEqual([]);
  });

  it('refuses a file for a variable that cannot come from a file, by name', () => {
    for (const name of ['SERVER_IDENTITY', 'PORT', 'DRS_ADMIN_TOKEN_FILE'])
      expect(problemsOf({ [`${name}_FILE`]: '/run/secrets/x' })).toEqual([
        `${name}_FILE is set, and ${name} cannot come from a file: set ${name} itself ` +
          '(only DECISION_LOG_KEY, TRUSTED_ROOTS, DRS_ADMIN_TOKEN, REDIS_URL, APPROVALS_WEBHOOK, GATE_SIGNING_KEY can come from files)',
      ]);
  });

  it('takes the trusted roots from one place', () => {
    expect(readConfiguration({ TRUSTED_ROOTS_FILE: '/etc/roots' }).trustedRootsFile).toBe('/etc/roots');
    expect(problemsOf({ TRUSTED_ROOTS: did, TRUSTED_ROOTS_FILE: '/etc/roots' })).toEqual([
      'TRUSTED_ROOTS and TRUSTED_ROOTS_FILE are both set, expected one of them: add the first to the file',
    ]);
    expect(problemsOf({ TRUSTED_ROOTS_FILE: ' ' })).toEqual([
      'TRUSTED_ROOTS_FILE is empty, and restricts what is accepted: give it a value, or unset it',
    ]);
  });

  it('warns if nobody has said which tool server this is', () => {
    const warnings = (env: Record<string, string>) => warningsAbout(readConfiguration(env), true);
    expect(warnings({})).toEqual([
      expect.stringMatching(/^SERVER_IDENTITY is not set: .*the gate refuses all/),
    ]);
    for (const name of ['any', 'https://tools.example'])
      expect(warnings({ SERVER_IDENTITY: name })).toEqual([]);
  });

  it('warns if limits hold only for calls that state what they limit', () => {
    const env = { SERVER_IDENTITY: 'any', UNSTATED_ARGUMENTS: 'allow' };
    expect(warningsAbout(readConfiguration(env), true)).toEqual([
      expect.stringMatching(/^UNSTATED_ARGUMENTS is "allow": .* TOOLS_FILE, and unset it$/),
    ]);
    expect(problemsOf({ TOOLS_FILE: ' ' })).toHaveLength(1);
  });

  it('refuses a name of the tool server that is in quotes, and warns of one that is no URL', () => {
    for (const name of ['"https://tools.example"', "'did:web:x'"])
      expect(problemsOf({ SERVER_IDENTITY: name })).toEqual([
        `SERVER_IDENTITY is ${name}, with its quotes: no call is signed for it; take them off, or unset it`,
      ]);
    const warnings = (name: string) => warningsAbout(readConfiguration({ SERVER_IDENTITY: name }), true);
    for (const name of ['did:web:x', 'stdio:notes', 'any']) expect(warnings(name)).toEqual([]);
    expect(warnings('tools')).toEqual([
      expect.stringMatching(/^SERVER_IDENTITY is "tools", and no URL or DID/),
    ]);
  });

  it('warns of variables that do nothing, and says what they wait for', () => {
    const warnings = (env: Record<string, string>) => warningsAboutIdle(env, readConfiguration(env));
    expect(warnings({ REDIS_URL: 'redis://a', STATUS_MAX_STALE_SECS: '1' })).toEqual([
      'STATUS_MAX_STALE_SECS is set and does nothing: STATUS_LIST_BASE_URL is not set',
      'REDIS_URL is set and does nothing: no store is redis',
    ]);
    expect(warnings({ PORT: '1', LISTEN: 'unix:/run/x', LISTEN_MODE: '600' })).toEqual([
      'PORT is set and does nothing: LISTEN takes its place',
    ]);
    expect(warnings({ LISTEN_MODE: '600', GRPC_PROTOCOL: 'http' })).toHaveLength(2);
    expect(warnings({ REDIS_URL: 'redis://a', GATE_REPLAY: 'redis', REDIS_TIMEOUT_MS: '' })).toEqual([]);
  });

  it('warns if nobody has said whom to trust', () => {
    const warnings = (env: Record<string, string>, isAnybodyMeant?: boolean) =>
      warningsAbout(readConfiguration({ SERVER_IDENTITY: 'any', ...env }), isAnybodyMeant);
    expect(warnings({})).toEqual([
      expect.stringMatching(/^neither TRUSTED_ROOTS nor TRUSTED_ROOTS_FILE is set/),
    ]);
    expect(warnings({}, true)).toEqual([]);
    for (const env of [{ TRUSTED_ROOTS: did }, { TRUSTED_ROOTS_FILE: '/etc/roots' }])
      expect(warnings(env)).toEqual([]);
  });

  it('warns where one record of used invocations is shared and the other is not', () => {
    const warnings = (env: Record<string, string>) =>
      warningsAbout(readConfiguration({ SERVER_IDENTITY: 'any', ...env }), true);
    expect(warnings({ REPLAY_PROTECTION: 'redis' })).toEqual([
      expect.stringMatching(/^REPLAY_PROTECTION is "redis" and GATE_REPLAY is "memory": .*set both to redis/),
    ]);
    expect(warnings({ REPLAY_PROTECTION: 'memory', GATE_REPLAY: 'redis' })).toEqual([
      expect.stringMatching(/^REPLAY_PROTECTION is "memory" and GATE_REPLAY is "redis"/),
    ]);
    for (const gate of ['redis', 'off'])
      expect(warnings({ REPLAY_PROTECTION: 'redis', GATE_REPLAY: gate })).toEqual([]);
    expect(warnings({ GATE_REPLAY: 'redis' })).toEqual([]);
  });

  it.each<[string, Record<string, string>]>([
    ['several instances would have to share', { GATE_REPLAY: 'off', SHARE_PORT: '1' }],
    ['would have no TLS', { TLS_CERT_FILE: '/cert.pem', TLS_KEY_FILE: '/key.pem' }],
    [
      'would have no TLS, also with a listener that has',
      { TLS_KEY_FILE: '/key.pem', METRICS_ADDR: '[::1]:0' },
    ],
  ])('refuses a Unix socket that %s', (_, env) => {
    expect(problemsOf({ LISTEN: 'unix:/run/x', ...env })).toEqual([
      expect.stringMatching(
        /^LISTEN is a Unix socket, which instances cannot share and which has no TLS: unset/,
      ),
    ]);
  });

  it('refuses an admin token that can be guessed, unseen', () => {
    for (const token of ['x', '1234567'])
      expect(problemsOf({ DRS_ADMIN_TOKEN: token })).toEqual([
        'DRS_ADMIN_TOKEN is (hidden): expected at least 8 characters of printable ASCII, without white space',
      ]);
    expect(problemsOf({ DRS_ADMIN_TOKEN: '12345678' })).toEqual([]);
  });

  it('warns of a short admin token', () => {
    const warnings = (token: string) =>
      warningsAbout(readConfiguration({ DRS_ADMIN_TOKEN: token, SERVER_IDENTITY: 'any' }), true);
    expect(warnings('123456789012345')).toEqual([
      expect.stringMatching(/^DRS_ADMIN_TOKEN is shorter than 16/),
    ]);
    expect(warnings('1234567890123456')).toEqual([]);
  });

  it('warns where the limits together allow more than the heap', () => {
    const warnings = (env: Record<string, string>, heapMib: number) =>
      warningsAboutMemory(readConfiguration(env), heapMib * 1024 * 1024);
    expect(warnings({}, 2048)).toEqual([]);
    // 64 for the cache, 128 for bodies, 286 for a million invocations of the gate, 64 for the rest.
    expect(warnings({}, 543)).toEqual([]);
    expect(warnings({}, 541)).toEqual([
      expect.stringMatching(
        /^the limits allow 542 MiB .*RECEIPT_CACHE_BYTES 64 MiB, MAX_BODY_MEMORY 128 MiB, REPLAY_MAX_ENTRIES 286 MiB/,
      ),
    ]);
    expect(warnings({ GATE_REPLAY: 'redis' }, 256)).toEqual([]);
    expect(warnings({ REPLAY_PROTECTION: 'memory' }, 543)).toHaveLength(1);
    expect(warnings({ REPLAY_PROTECTION: 'memory', REPLAY_MAX_ENTRIES: '100000' }, 543)).toEqual([]);
  });

  describe('is documented in docs/configuration.md', () => {
    const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| `([A-Z][A-Z_]+)` \| (.+?) \| \S/gm)].map(
      ([, variable = '', documented = '']) => ({ variable, documented }),
    );

    it('as the table of variables gives it', () => {
      const wanted = withTables(page, describeVariables());
      expect(page === wanted, 'run `npm run setup && node scripts/configuration-docs.mjs --write`').toBe(
        true,
      );
      // Somebody has edited a row, or there is no place for a table.
      expect(withTables(page.replace('| `8080` |', '| `8081` |'), describeVariables())).toBe(wanted);
      expect(() => withTables(page.replace('## Load', '## Burden'), describeVariables())).toThrow(
        '"## Load"',
      );
    });

    it('with each variable once', () => {
      expect(rows.map(({ variable }) => variable).sort()).toEqual([...VARIABLES].sort());
    });

    // A default in code format is what one would set; a default in words depends on the machine or on another variable.
    const literal = rows.filter(({ documented }) => /^(?:`[^`]*`|unset)$/.test(documented));

    it.each(literal)('with the default of $variable, $documented', ({ variable, documented }) => {
      if (documented === 'unset')
        expect(Object.keys(readConfiguration({})).map(variableOf)).not.toContain(variable);
      else expect(readConfiguration({ [variable]: documented.slice(1, -1) })).toEqual(readConfiguration({}));
    });
  });
});

describe('a URL that is printed', () => {
  it.each([
    ['https://me:pw@lists.example/1?key=k#f', 'https://lists.example/1'],
    ['redis://me:pw@redis.example:6379/2', 'redis://redis.example:6379/2'],
    ['https://lists.example/a@b', 'https://lists.example/a@b'],
    ['me:pw@lists.example', 'lists.example'],
    ['lists.example/1?key=k', 'lists.example/1'],
    ['', ''],
  ])('of %j shows %j', (text, shown) => expect(printableUrl(text)).toBe(shown));
});
