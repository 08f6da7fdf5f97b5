import { importJWK, SignJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { generateKey } from '../../src/issue/index.js';
import { contextSignerOf } from '../../src/service/routes/context-token.js';

/** Signed contexts, in process; `test/e2e/gate-context.test.ts` has them as tool servers get them. */

const key = generateKey();
const revocation = { list_age_secs: 7, lists: ['https://lists.example/a'] };
const open = (seed = key.toJwk().d) => contextSignerOf(seed, () => revocation);
type Allowed = Parameters<ReturnType<typeof open>['sign']>;

const context: Allowed[2] = {
  ...{ agent: 'did:key:agent', root_principal: 'did:key:root', chain_depth: 3, tool: 'search' },
  ...{ command: '/mcp/tools/call', invocation: 'inv:1', receipts: [], root_type: null, expires_at: null },
  tool_server: 'tools',
};
const limit = { level: 0, receipt: 'r0', maxCalls: 9, maxTotalMicroUsd: null, nbf: 0, exp: null };
/** What is read of a call. */
const call = (more: object = {}, limits: Allowed[1]['chain']['limits'] = []): Allowed => {
  const receipts = ['root', 'first', 'second'].map((name) => ({ claims: { iss: `did:key:${name}` } }));
  const claims = { tool_server: 'tools', args: { b: 'ü', a: 1, estimated_cost_usd: 0.5 } };
  const proof = { chain: { receipts, limits }, invocation: { claims } } as unknown as Allowed[1];
  return [{ encoded: 'e30' } as Allowed[0], proof, { ...context, ...more }, 100];
};

describe('a signed context', () => {
  it('names the root as the operator does, how the body compares, and what was charged', () => {
    const signer = open();
    const plain = signer.read(signer.sign(...call()));
    // The agent acts for the second delegate, and that one for the first. RFC 8693 §4.1
    expect(plain).toMatchObject({
      act: { sub: 'did:key:agent', act: { sub: 'did:key:second', act: { sub: 'did:key:first' } } },
      ...{ binding: 'none', revocation },
    });
    const more = {
      ...{ root_name: 'Zoë', labels: { team: 'sales' }, binding: 'match', root_type: 'human' },
      ...{ session_id: 's-1', correlation_id: 'c-1', regulatory: { frameworks: ['gdpr'] } },
      approval: { statement: 'A'.repeat(43), by: [{ name: 'Zoë', at: 1_700_000_000 }] },
      consent_record: { locale: 'en', method: 'm', policy_hash: 'h', session_id: 's', timestamp: 't' },
    };
    expect(signer.read(signer.sign(...call(more)))).toStrictEqual({ ...plain, ...more });
    const limits = [limit, { ...limit, receipt: 'r1', maxTotalMicroUsd: 9_000_000 }];
    expect(signer.read(signer.sign(...call({ limits: [] }, limits)))).toStrictEqual({
      ...plain,
      charged: [
        { receipt: 'r0', micro_usd: 0 },
        { receipt: 'r1', micro_usd: 500_000 },
      ],
    });
    expect(signer.read(signer.sign(...call({}, limits)))).not.toHaveProperty('charged');
    const said = { stated_by: { estimated_cost_usd: 'tool' as const }, cost_usd: 2 };
    expect(
      signer.read(signer.sign(...call({ limits: [], ...said }, [limits[1] as typeof limit]))),
    ).toStrictEqual({
      ...{ ...plain, ...said },
      charged: [{ receipt: 'r1', micro_usd: 2_000_000 }],
    });
  });

  it('is none of another key, nor text that is not ASCII', () => {
    const [signer, other] = [open(), open(generateKey().toJwk().d)];
    const token = signer.sign(...call());
    expect(other.read(token)).toBeNull();
    const [head = '', payload = '', signature = ''] = token.split('.');
    expect(signer.read(`${head}.${payload}ü.${signature}`)).toBeNull();
    expect(signer.read(`${head}x${payload}.${signature}`)).toBeNull();
    expect(signer.read(`${head}.${payload}.*`)).toBeNull();
  });

  it('is no other token that its key has signed', async () => {
    const signer = open();
    const { kid } = signer.jwk;
    const token = await new SignJWT({ ...signer.read(signer.sign(...call())) })
      .setProtectedHeader({ alg: 'EdDSA', kid, typ: 'JWT' })
      .sign(await importJWK({ ...key.toJwk() }, 'EdDSA'));
    expect(signer.read(token)).toBeNull();
  });
});
