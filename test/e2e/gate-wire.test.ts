import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';
import { headerNames, readWire, send } from './gate-wire.js';
import { CONTEXT, WIRE_RECIPES } from './gate-wire-recipes.js';

/** What the gate reads of a call besides its method and body. */
const READ = ['x-drs-bundle', 'content-type', 'content-encoding', 'mcp-method', 'mcp-name', 'accept'];
const OVERRIDES = [
  ...['x-http-method-override', 'x-http-method', 'x-method-override'],
  ...['x-original-method', 'x-forwarded-method'],
  ...['x-original-uri', 'x-original-url', 'x-rewrite-url'],
];

const MAX_BODY_BYTES = 1_048_576;

let gate: RunningService;
beforeAll(async () => {
  gate = await startService({ MAX_BODY_BYTES: String(MAX_BODY_BYTES) });
});
afterAll(() => gate.stop());

describe.each(WIRE_RECIPES)('the recipe for $name, which is not run here', (recipe) => {
  const requests = readWire(recipe.name);

  it('sends what the gate reads, and takes off what names another method or path, and the bundle', () => {
    expect(recipe.sent).toEqual(expect.arrayContaining(READ));
    const metadata = '/.well-known/oauth-protected-resource';
    expect(['/mcp', metadata, `${metadata}/mcp`].map(recipe.forwards)).toEqual(
      recipe.name === 'agentgateway' ? [true, false, false] : [true, true, true],
    );
    expect(['/mcp/', '/', '/mcpx', `${metadata}/x`, `/x${metadata}`].map(recipe.forwards)).not.toContain(
      true,
    );
    expect([...recipe.sent, ...recipe.added]).toContain('x-forwarded-for');
    expect(recipe.removed).toEqual(expect.arrayContaining([...OVERRIDES, 'x-drs-bundle']));
    // The gate gets the bundle: it goes after the verdict.
    expect(requests.some(({ text }) => text.includes('{{bundle}}'))).toBe(true);
    expect(recipe.maxBodyBytes).toBe(MAX_BODY_BYTES);
    // What was recorded is what the recipe makes the proxy send, but for the requests of other settings.
    for (const request of requests.filter(({ name }) => !name.includes('where somebody'))) {
      const known = [...recipe.sent, ...recipe.added];
      expect({
        name: request.name,
        unknown: headerNames(request).filter((name) => !known.includes(name)),
      }).toEqual({ name: request.name, unknown: [] });
    }
    expect(
      new Set(requests.flatMap(({ expected }) => (typeof expected === 'string' ? expected : 'deny'))),
    ).toEqual(new Set(['allow', 'pass', 'deny']));
  });

  const callers = new Map([...CONTEXT.map((name) => [name, 'spoofed'] as const), ['accept', '*/*'] as const]);

  it.each(requests)('$name', async (request) => {
    const answer = await send(gate.port, request);
    const treatment = recipe.treat(answer, callers);
    if (typeof request.expected !== 'string') {
      const [, status, code] = request.expected;
      expect(answer.headers.get('x-drs-code')).toBe(code);
      expect(treatment).toMatchObject({ passes: false, status });
      const { body } = treatment as { body: string };
      expect(JSON.parse(body)).toMatchObject({
        jsonrpc: '2.0',
        error: { code: -32010, message: expect.stringMatching(new RegExp(`^DRS: ${code}: .`)) as string },
      });
      return;
    }
    expect(treatment).toMatchObject({ passes: true });
    const { headers } = treatment as { headers: ReadonlyMap<string, string> };
    expect([...headers.values()]).not.toContain('spoofed');
    expect(headers.get('accept')).toBe('*/*');
    const said = CONTEXT.filter((name) => headers.has(name));
    if (request.expected === 'pass') expect(said).toEqual([]);
    else {
      // Those that this gate does not say: it has no key, and its roots have no names and no approvers.
      const unsaid = [
        'x-drs-context',
        'x-drs-root-name',
        'x-drs-session-id',
        'x-drs-correlation-id',
        'x-drs-approved-by',
        'x-drs-observed',
      ];
      expect(said).toEqual(CONTEXT.filter((name) => !unsaid.includes(name)));
      expect(headers.get('x-drs-binding')).toBe('match');
      expect(headers.get('x-drs-tool')).toBe('search');
    }
  });
});
