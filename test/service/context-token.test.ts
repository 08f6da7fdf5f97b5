import { createHash } from 'node:crypto';
import { calculateJwkThumbprint, importJWK, jwtVerify, SignJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import type { AllowedCall, JudgedChain } from '../../src/gate/decide.js';
import { generateKey } from '../../src/issue/index.js';
import { contextSignerOf } from '../../src/service/routes/context-token.js';

/** Signed contexts, in process; `test/e2e/gate-context.test.ts` has them as tool servers get them. */

const key = generateKey();
const revocation = { list_age_secs: 7, lists: ['https://lists.example/a'] };
const open = (seed = key.toJwk().d) => contextSignerOf(seed, () => revocation);
const digest = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`;

const context: AllowedCall<JudgedChain>['context'] = {
  ...{ agent: 'did:key:agent', root_principal: 'did:key:root', chain_depth: 3, tool: 'search' },
  ...{ command: '/mcp/tools/call', invocation: 'inv:1', receipts: [], root_type: null, expires_at: null },
};
const limit = { level: 0, receipt: 'r0', maxCalls: 9, maxTotalMicroUsd: null, nbf: 0, exp: null };
/** What is read of a call. */
const call = (more: object = {}, limits: JudgedChain['limits'] = []) =>
  ({
    ...{ now: 100, call: { encoded: 'e30' }, context: { ...context, ...more } },
    chain: {
      receipts: [{ iss: 'did:key:root' }, { iss: 'did:key:first' }, { iss: 'did:key:second' }],
      invocation: { tool_server: 'tools', args: { b: 'ü', a: 1, estimated_cost_usd: 0.5 } },
      limits,
    },
  }) as unknown as AllowedCall<JudgedChain>;
const CLAIMS = {
  ...{ iss: key.did, aud: 'tools', sub: 'did:key:root', client_id: 'did:key:agent', iat: 100, exp: 130 },
  act: { sub: 'did:key:agent', act: { sub: 'did:key:second', act: { sub: 'did:key:first' } } },
  ...{ jti: 'inv:1', verdict: 'valid', agent: 'did:key:agent', chain_depth: 3, command: '/mcp/tools/call' },
  ...{ tool: 'search', binding: 'none', revocation },
  bundle_digest: digest('e30'),
  args_digest: digest('{"a":1,"b":"ü","estimated_cost_usd":0.5}'),
};

describe('a signed context', () => {
  it('has a key that others know by its thumbprint', async () => {
    const { jwk } = open();
    expect(jwk).toEqual({
      ...{ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', x: key.toJwk().x },
      kid: await calculateJwkThumbprint(jwk),
    });
  });

  it('says of a call what it was signed for, to others and to its own gate', async () => {
    const signer = open();
    const token = signer.sign(call());
    const { payload, protectedHeader } = await jwtVerify(token, await importJWK(signer.jwk), {
      currentDate: new Date(100_000),
    });
    expect(protectedHeader).toEqual({ alg: 'EdDSA', kid: signer.jwk.kid, typ: 'drs-context+jwt' });
    expect(payload).toStrictEqual(CLAIMS);
    expect(signer.read(token)).toStrictEqual(CLAIMS);
  });

  it('names the root as the operator does, how the body compares, and what was charged', () => {
    const signer = open();
    const more = { root_name: 'Zoë', labels: { team: 'sales' }, binding: 'match' };
    expect(signer.read(signer.sign(call(more)))).toStrictEqual({ ...CLAIMS, ...more });
    const limits = [limit, { ...limit, receipt: 'r1', maxTotalMicroUsd: 9_000_000 }];
    expect(signer.read(signer.sign(call({ limits: [] }, limits)))).toStrictEqual({
      ...CLAIMS,
      charged: [
        { receipt: 'r0', micro_usd: 0 },
        { receipt: 'r1', micro_usd: 500_000 },
      ],
    });
    expect(signer.read(signer.sign(call({}, limits)))).not.toHaveProperty('charged');
  });

  it('is none of another key, nor text that is not ASCII', () => {
    const [signer, other] = [open(), open(generateKey().toJwk().d)];
    const token = signer.sign(call());
    expect(other.read(token)).toBeNull();
    const [head = '', payload = '', signature = ''] = token.split('.');
    expect(signer.read(`${head}.${payload}ü.${signature}`)).toBeNull();
    expect(signer.read(`${head}x${payload}.${signature}`)).toBeNull();
    expect(signer.read(`${head}.${payload}.*`)).toBeNull();
  });

  it('is no other token that its key has signed', async () => {
    const signer = open();
    const { kid } = signer.jwk;
    const token = await new SignJWT(CLAIMS)
      .setProtectedHeader({ alg: 'EdDSA', kid, typ: 'JWT' })
      .sign(await importJWK({ ...key.toJwk() }, 'EdDSA'));
    expect(signer.read(token)).toBeNull();
  });

  it('needs a key in base64url', () => {
    expect(() => open('*')).toThrow('the signing key is not base64url');
  });
});
