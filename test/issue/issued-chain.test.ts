import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { compactVerify, importJWK } from 'jose';
import { expect, it } from 'vitest';
import {
  createBundle,
  encodeBundle,
  generateKey,
  issueInvocation,
  issueRootDelegation,
} from '../../src/issue/index.js';
import { readBundle } from '../../src/protocol/bundle.js';
import { at, issuedChain, NOW, payloadOf, payloadTextOf, randomArgs, STATED } from './random-chain.js';

const sha256 = (jwt: string) => `sha256:${createHash('sha256').update(jwt, 'ascii').digest('hex')}`;

it('every receipt of a random chain verifies by jose, links to its parent and is in JCS form', async () => {
  await fc.assert(
    fc.asyncProperty(issuedChain, async (made) => {
      const { receipts, keys, policies, commands } = await made;
      for (const [index, jwt] of receipts.entries()) {
        const issuer = at(keys, index);
        const { payload, protectedHeader } = await compactVerify(
          jwt,
          await importJWK(issuer.toPublicJwk(), 'EdDSA'),
        );
        expect(protectedHeader).toEqual({ alg: 'EdDSA', typ: 'JWT' });
        const claims = JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown>;
        expect(new TextDecoder().decode(payload)).toBe(canonicalize(claims));
        expect(claims).toMatchObject({
          drs_type: 'delegation-receipt',
          drs_v: '4.0',
          iss: issuer.did,
          aud: at(keys, index + 1).did,
          sub: at(keys, 0).did,
          cmd: at(commands, index),
          iat: NOW,
          prev_dr_hash: index === 0 ? null : sha256(at(receipts, index - 1)),
        });
        // What JSON cannot tell apart (-0) is compared as JSON.
        expect(canonicalize(claims['policy'])).toBe(canonicalize(at(policies, index)));
        expect(claims['jti']).toMatch(
          /^dr:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
        );
        expect('drs_consent' in claims).toBe(index === 0);
        expect('drs_root_type' in claims).toBe(index === 0);
      }
    }),
    { numRuns: 50 },
  );
});

it('an invocation under a random chain verifies by jose and names every receipt', async () => {
  await fc.assert(
    fc.asyncProperty(issuedChain, randomArgs, async (made, extra) => {
      const { receipts, keys, policies, commands } = await made;
      const tools = at(policies, -1).allowed_tools ?? undefined;
      fc.pre(tools === undefined || tools.length > 0);
      const args = { ...extra, ...(tools ? { tool: at(tools, 0) } : {}), ...STATED };
      const key = at(keys, -1);
      const jwt = await issueInvocation({
        key,
        chain: receipts,
        args,
        toolServer: 'https://tools.example',
        now: NOW,
      });
      await compactVerify(jwt, await importJWK(key.toPublicJwk(), 'EdDSA'));
      const claims = payloadOf(jwt);
      expect(payloadTextOf(jwt)).toBe(canonicalize(claims));
      expect(canonicalize(claims['args'])).toBe(canonicalize(args));
      expect(claims).toMatchObject({
        drs_type: 'invocation-receipt',
        drs_v: '4.0',
        iss: key.did,
        sub: at(keys, 0).did,
        cmd: at(commands, -1),
        dr_chain: receipts.map(sha256),
        iat: NOW,
        tool_server: 'https://tools.example',
      });
      expect(claims['jti']).toMatch(/^inv:[0-9a-f-]{36}$/);

      const bundle = createBundle({ receipts, invocation: jwt });
      expect(readBundle(encodeBundle(bundle))).toEqual({ value: bundle });
    }),
    { numRuns: 50 },
  );
});

it('a root and an invocation say what a call belongs to, if they are told', async () => {
  const [key, agent] = [generateKey(), generateKey()];
  const stated = { sessionId: 's-1', correlationId: 'c-1', regulatory: { frameworks: ['gdpr'] } };
  const claims = { session_id: 's-1', correlation_id: 'c-1', drs_regulatory: { frameworks: ['gdpr'] } };
  const root = { key, audience: agent.did, command: '/mcp', policy: {}, rootType: 'organisation' };
  const receipt = await issueRootDelegation({ ...root, ...stated });
  const call = { key: agent, chain: [receipt], args: {}, toolServer: 'x' };
  for (const jwt of [receipt, await issueInvocation({ ...call, ...stated })])
    expect(payloadOf(jwt)).toMatchObject(claims);
  for (const jwt of [await issueRootDelegation(root), await issueInvocation(call)])
    for (const claim of Object.keys(claims)) expect(payloadOf(jwt)).not.toHaveProperty(claim);
});
