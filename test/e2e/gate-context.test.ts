import { createHash } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  calculateJwkThumbprint,
  createRemoteJWKSet,
  decodeJwt,
  generateKeyPair,
  jwtVerify,
  SignJWT,
} from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateKey } from '../../src/issue/index.js';
import { toJcs } from '../../src/protocol/jcs.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { mcpChain } from '../gate/decide.js';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { send } from '../middleware/http.js';
import { ListServer } from '../revocation/list-server.js';
import { LIST_ID, listWith } from '../revocation/lists.js';
import { eventually } from '../support/eventually.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { hasProcess, startService, type RunningService } from '../support/service.js';

const key = generateKey();
const args = { tool: 'search', query: 'tea' };
const toolServer = 'https://tools.example';
const root = mcpChain.parties[0]?.did ?? '';
const labels = { team: 'sales' };
const folder = mkdtempSync(path.join(tmpdir(), 'drs-context-'));
const file = path.join(folder, 'roots.jsonl');
/** Replaces the file in one step. */
function trust(text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}
const trusted = (did: string, others: object = {}) =>
  JSON.stringify({ did, name: 'Zoë@example.com', labels, ...others });
let service: RunningService;
beforeAll(async () => {
  trust(trusted(root));
  const roots = { TRUSTED_ROOTS_FILE: file };
  service = await startService({ GATE_SIGNING_KEY: key.toJwk().d, WORKER_THREADS: '0', ...roots });
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

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
  const options = {
    audience: toolServer,
    issuer: key.did,
    typ: 'drs-context+jwt',
    algorithms: ['EdDSA'],
  };
  const { payload, protectedHeader } = await jwtVerify(token, keys, options);
  expect(protectedHeader).toEqual({
    alg: 'EdDSA',
    typ: 'drs-context+jwt',
    kid: expect.stringMatching(/^[\w-]{43}$/) as string,
  });
  expect(payload).toEqual({
    iss: key.did,
    aud: toolServer,
    root_type: 'human',
    consent_record: expect.objectContaining({ session_id: 'session-1' }) as unknown,
    sub: root,
    client_id: mcpChain.parties.at(-1)?.did,
    act: { sub: mcpChain.parties.at(-1)?.did, act: { sub: mcpChain.parties[1]?.did } },
    iat: expect.any(Number) as number,
    exp: (payload.iat ?? 0) + 30,
    jti: expect.stringMatching(/^inv:/) as string,
    verdict: 'valid',
    agent: mcpChain.parties.at(-1)?.did,
    root_name: 'Zoë@example.com',
    labels,
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

it('publishes the public key, and nothing else', async () => {
  const { keys } = (await (await fetch(`${service.url}/.well-known/jwks.json`)).json()) as { keys: object[] };
  const { kty, crv, x } = key.toJwk();
  // RFC 7638
  const kid = await calculateJwkThumbprint({ kty, crv, x });
  expect(keys).toEqual([{ kty, crv, x, alg: 'EdDSA', use: 'sig', kid }]);
});

describe('a gate with a status list and gRPC', () => {
  let list: ListServer;
  let gate: RunningService;
  beforeAll(async () => {
    list = await ListServer.start();
    list.serve('application/vc', listWith([]));
    gate = await startServiceHere({
      GATE_SIGNING_KEY: key.toJwk().d,
      GRPC_PORT: '0',
      WORKER_THREADS: '0',
      STATUS_LIST_BASE_URL: `${list.url.replace('//', '//user:secret@')}?token=secret`,
      STATUS_LIST_ID: LIST_ID,
    });
    await eventually(async () => expect((await fetch(`${gate.url}/readyz`)).status).toBe(200));
  });
  afterAll(async () => {
    await gate.stop();
    await list.close();
  });

  it('says how old the list is and where it comes from, without the secrets of its URL', async () => {
    const { headers } = await send(`${gate.url}/gate/mcp`, [['X-DRS-Bundle', mcpBundle()]], toolCall());
    const { binding, revocation } = decodeJwt(headers['x-drs-context'] as string);
    expect(binding).toBe('match');
    expect(revocation).toEqual({
      list_age_secs: expect.toSatisfy((age) => Number.isSafeInteger(age) && age >= 0) as number,
      lists: [list.url],
    });
  });

  it('hands the signed context on over gRPC', async () => {
    const client = clientOf(AUTHORIZATION, grpcPortOf(gate));
    const bundle = mcpBundle();
    const http = {
      method: 'POST',
      headers: { 'x-drs-bundle': bundle },
      raw_body: Buffer.from(toolCall()),
    };
    const answer = await callOnce(client, 'Check', { attributes: { request: { http } } });
    client.close();
    const { ok_response: ok } = answer as unknown as {
      ok_response: { headers: { header: { key: string; value: string } }[]; headers_to_remove: string[] };
    };
    const set = ok.headers.map(({ header }) => header);
    const token = String(set.find((header) => header.key === 'x-drs-context')?.value);
    expect(decodeJwt(token)).toMatchObject({
      iss: key.did,
      bundle_digest: digest(bundle),
    });
    expect(ok.headers_to_remove).toEqual([
      ...['x-drs-root-name', 'x-drs-session-id', 'x-drs-correlation-id', 'x-drs-approved-by'],
      'x-drs-observed',
    ]);
  });
});

it.each(['x', key.did, `${key.toJwk().d}A`])('takes no key that is none: %s', (text) => {
  expect(() => readConfiguration({ GATE_SIGNING_KEY: text })).toThrow(
    /^GATE_SIGNING_KEY is \(hidden\): .*keygen/,
  );
});

it('signs nothing without a key', async () => {
  const plain = await startServiceHere({ WORKER_THREADS: '0' });
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

describe('the file of trusted roots', () => {
  const ask = async (more: readonly (readonly [string, string])[] = []) => {
    const { status, headers, body } = await send(
      `${service.url}/gate/mcp`,
      [['X-DRS-Bundle', mcpBundle()], ...more],
      toolCall(),
    );
    const { error } = (body ?? {}) as { error?: { data: { code: string } } };
    return { status, headers, code: error?.data.code };
  };
  const reads = (outcome: string) => service.log.filter(({ msg }) => String(msg).startsWith(outcome)).length;

  it('names the root to the tool server, never what the caller says', async () => {
    const { status, headers } = await ask([['X-DRS-Root-Name', 'boss@example.com']]);
    expect([status, headers['x-drs-root-name']]).toEqual([200, '=?base64?Wm/Dq0BleGFtcGxlLmNvbQ==?=']);
    expect(String(headers['x-envoy-auth-headers-to-remove'])).not.toContain('x-drs-root-name');
    const bundle = JSON.parse(Buffer.from(mcpBundle(), 'base64url').toString()) as object;
    const forged = { ...bundle, details: true, root_name: 'boss@example.com', labels: { team: 'board' } };
    const verdict = (await (
      await fetch(`${service.url}/verify`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(forged),
      })
    ).json()) as object;
    expect(verdict).toMatchObject({ valid: true, details: { root_name: 'Zoë@example.com', labels } });
  });

  it('ends cached chains when it changes, and holds on to what was in force while it has a fault', async () => {
    trust(trusted(root, { policy: { allowed_tools: ['fetch'] } }));
    await eventually(async () => expect(await ask()).toMatchObject({ code: 'ROOT_POLICY_EXCEEDED' }));
    trust('{"did": ');
    await eventually(() => expect(reads('the trusted roots cannot be read')).toBe(1));
    expect(await ask()).toMatchObject({ code: 'ROOT_POLICY_EXCEEDED' });
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metrics).toContain('drs_reload_failed{part="roots"} 1\n');
    expect(metrics).toContain('drs_trusted_roots_reads_total{outcome="refused"} 1\n');
    trust(trusted(key.did));
    await eventually(async () => expect(await ask()).toMatchObject({ code: 'UNTRUSTED_ROOT' }));
    trust(trusted(root, { not_after: '2026-01-01' }));
    if (hasProcess) service.child.kill('SIGHUP');
    await eventually(async () => expect(await ask()).toMatchObject({ code: 'ROOT_EXPIRED' }));
    trust(trusted(root));
    await eventually(async () => expect(await ask()).toMatchObject({ status: 200 }));
    expect(await (await fetch(`${service.url}/metrics`)).text()).toContain(
      'drs_reload_failed{part="roots"} 0\n',
    );
  });
});
