import { createHash } from 'node:crypto';
import { createRemoteJWKSet, generateKeyPair, jwtVerify, SignJWT } from 'jose';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { generateKey } from '../../src/issue/index.js';
import { toJcs } from '../../src/protocol/jcs.js';
import { readConfiguration } from '../../src/server/configuration.js';
import { mcpChain } from '../gate/decide.js';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { send } from '../middleware/http.js';
import { startService, type RunningService } from '../support/service.js';

const key = generateKey();
const args = { tool: 'search', query: 'tea' };
const toolServer = 'https://tools.example';
let service: RunningService;
beforeAll(async () => {
  service = await startService({ GATE_SIGNING_KEY: key.toJwk().d });
});
afterAll(() => service.stop());

const digest = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`;

async function contextOf(bundle: string): Promise<string> {
  const { status, headers } = await send(`${service.url}/gate/mcp`, [['X-DRS-Bundle', bundle]], toolCall());
  expect(status).toBe(200);
  return headers['x-drs-context'] as string;
}

it('signs the context of an allowed call for its tool server, as jose reads it', async () => {
  const bundle = mcpBundle(args, { tool_server: toolServer });
  const keys = createRemoteJWKSet(new URL(`${service.url}/.well-known/jwks.json`));
  const token = await contextOf(bundle);
  const options = { audience: toolServer, issuer: key.did, typ: 'drs-context+jwt', algorithms: ['EdDSA'] };
  const { payload, protectedHeader } = await jwtVerify(token, keys, options);
  expect(protectedHeader).toEqual({
    alg: 'EdDSA',
    typ: 'drs-context+jwt',
    kid: expect.stringMatching(/^[\w-]{43}$/) as string,
  });
  expect(payload).toEqual({
    iss: key.did,
    aud: toolServer,
    sub: mcpChain.parties[0]?.did,
    iat: expect.any(Number) as number,
    exp: (payload.iat ?? 0) + 30,
    jti: expect.stringMatching(/^inv:/) as string,
    verdict: 'valid',
    agent: mcpChain.parties.at(-1)?.did,
    chain_depth: 2,
    command: '/mcp/tools/call',
    tool: 'search',
    binding: 'match',
    bundle_digest: digest(bundle),
    args_digest: digest(toJcs(args)),
    revocation: { list_age_secs: null, lists: [] },
  });
  const wrong = { ...options, audience: 'https://other.example' };
  await expect(jwtVerify(token, keys, wrong)).rejects.toThrow(/aud/);
  const later = new Date(Date.now() + 32_000);
  await expect(jwtVerify(token, keys, { ...options, currentDate: later })).rejects.toThrow(/exp/);
  const altered = token.replace(/\.([^.]*)$/, (_, signature: string) => `.${signature.slice(0, -3)}AAA`);
  await expect(jwtVerify(altered, keys, options)).rejects.toThrow(/signature/);
  const { privateKey } = await generateKeyPair('EdDSA');
  const forged = await new SignJWT(payload)
    .setProtectedHeader({ ...protectedHeader, alg: 'EdDSA' })
    .sign(privateKey);
  await expect(jwtVerify(forged, keys, options)).rejects.toThrow(/signature/);
});

it('hands the same on over /v1/gate, and nothing to a denied or passing request', async () => {
  const body = JSON.parse(toolCall()) as object;
  const headers = { 'X-DRS-Bundle': mcpBundle() };
  const ask = async (asked: object) => (await (await service.post('/v1/gate', asked)).json()) as object;
  expect(await ask({ protocol: 'mcp', headers, body })).toMatchObject({
    allow: true,
    context_jwt: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]{86}$/) as string,
  });
  expect(await ask({ protocol: 'mcp', headers, body })).not.toHaveProperty('context_jwt');
  const passed = await send(
    `${service.url}/gate/mcp`,
    [['X-DRS-Context', 'spoofed']],
    toolCall({}, { method: 'ping' }),
  );
  expect(passed.status).toBe(200);
  expect(passed.headers['x-drs-context']).toBeUndefined();
  expect(String(passed.headers['x-envoy-auth-headers-to-remove']).split(',')).toContain('x-drs-context');
});

it.each(['x', key.did, `${key.toJwk().d}A`])('takes no key that is none: %s', (text) => {
  expect(() => readConfiguration({ GATE_SIGNING_KEY: text })).toThrow(
    /^GATE_SIGNING_KEY is \(hidden\): .*keygen/,
  );
});

it('signs nothing without a key', async () => {
  const plain = await startService();
  try {
    const { status } = await fetch(`${plain.url}/.well-known/jwks.json`);
    expect(status).toBe(404);
    const { headers } = await send(`${plain.url}/gate/mcp`, [['X-DRS-Bundle', mcpBundle()]], toolCall());
    expect(headers['x-drs-agent']).toBeDefined();
    expect(headers['x-drs-context']).toBeUndefined();
  } finally {
    await plain.stop();
  }
});
