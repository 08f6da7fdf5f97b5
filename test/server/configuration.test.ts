import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readConfiguration, VARIABLES } from '../../src/server/configuration.js';
import { RateLimit } from '../../src/server/rate-limit.js';
import { OptionsError } from '../../src/verifier/options.js';

const problemsOf = (env: Record<string, string>) => {
  try {
    readConfiguration(env);
  } catch (error) {
    if (error instanceof OptionsError) return error.problems;
    throw error;
  }
  return [];
};

describe('the configuration', () => {
  it('has the defaults of the specification', () => {
    expect(readConfiguration({})).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      maxBodyBytes: 1_048_576,
      maxChainDepth: 16,
      clockSkewSecs: 0,
      statusCacheTtlSecs: 300,
      statusMaxStaleSecs: 0,
      rateLimitPerIp: 0,
      rateLimitGlobal: 0,
    });
  });

  it('reads numbers, lists and text that looks like a number', () => {
    expect(
      readConfiguration({ MAX_PENDING: '7', DRS_ADMIN_TOKEN: '12345', SERVER_IDENTITY: '42' }),
    ).toMatchObject({
      maxPending: 7,
      drsAdminToken: '12345',
      serverIdentity: '42',
    });
    const did = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';
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
  ])('refuses %s=%s and names it', (variable, value) => {
    const problems = problemsOf({ [variable]: value });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${variable} is "${value}": .`));
  });

  it('is documented in the README, variable by variable', () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
    const documented = [...readme.matchAll(/^\| `([A-Z][A-Z_]+)` \|/gm)].map(([, name]) => name);
    expect(documented.sort()).toEqual([...VARIABLES].sort());
  });
});

describe('rate limits', () => {
  it("gives each client a second's worth at once, then its rate", () => {
    const limit = new RateLimit(10, 0);
    for (let request = 0; request < 10; request++) expect(limit.admit('a', 0)).toBe(0);
    expect(limit.admit('a', 0)).toBeCloseTo(0.1);
    expect(limit.admit('b', 0)).toBe(0);
    expect(limit.admit('a', 99)).toBeGreaterThan(0);
    expect(limit.admit('a', 150)).toBe(0);
    expect(limit.admit('a', 150)).toBeGreaterThan(0);
    // However long it waits, it never saves up more than a second's worth.
    for (let request = 0; request < 10; request++) expect(limit.admit('a', 1e9)).toBe(0);
    expect(limit.admit('a', 1e9)).toBeGreaterThan(0);
  });

  it('limits all clients together', () => {
    const limit = new RateLimit(0, 3);
    expect(['a', 'b', 'c'].map((client) => limit.admit(client, 0))).toEqual([0, 0, 0]);
    expect(limit.admit('d', 0)).toBeGreaterThan(0);
  });
});
