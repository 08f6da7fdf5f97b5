import { describe, expect, it } from 'vitest';
import { childClaims, HEADER, invocationClaims, party, rootClaims, signJwt } from '../support/chain.js';
import { needs } from '../support/programs.js';
import { documentOf, newKey } from './documents.js';
import { mayMakeNetwork, runInNetwork } from './network.js';

const did = 'did:web:issuer.names.test:teams:a';
const inside = 'did:web:inside.names.test';
const key = newKey('1');
const [root, agent, helper] = [{ did, key: key.key }, party(), party()] as const;
const receipts = [signJwt(rootClaims(root, agent), root, { ...HEADER, kid: `${did}#1` })];
receipts.push(signJwt(childClaims(receipts[0] ?? '', root, agent, helper), agent));
const invocation = signJwt(invocationClaims(receipts, root, helper), helper);
const bundle = { bundle_version: '4.0', receipts, invocation };

interface Outcome {
  readonly codes: readonly string[];
  readonly asked: readonly string[];
}

if (mayMakeNetwork) {
  describe('a document at a real server of TLS', needs('ip', 'unshare', 'openssl'), () => {
    const document = documentOf(did, [key]);
    const asked = '::ffff:93.184.215.14 issuer.names.test/teams/a/did.json';

    it('is had where the authority is known', { timeout: 60_000 }, async () => {
      const rows = [[{ did }], [{ did, addresses: ['10.0.0.0/8'] }]];
      const outcome = await runInNetwork<Outcome>('https-child.mjs', { document, rows, bundle });
      expect(outcome).toEqual({ codes: ['valid', 'valid'], asked: [asked, asked] });
    });

    it('is not had where it is not known, and the server is not asked', { timeout: 60_000 }, async () => {
      const work = { document, rows: [[{ did }]], bundle };
      const outcome = await runInNetwork<Outcome>('https-child.mjs', work, false);
      expect(outcome).toEqual({ codes: ['DID_RESOLUTION_FAILED'], asked: [] });
    });

    it('of a private address is had where the row lists it', { timeout: 60_000 }, async () => {
      const own = { did: inside, key: key.key };
      const top = signJwt(rootClaims(own, agent), own);
      const call = signJwt(invocationClaims([top], own, agent), agent);
      const work = {
        document: documentOf(inside, [key]),
        rows: [[{ did: inside }], [{ did: inside, addresses: ['10.1.2.3'] }]],
        bundle: { bundle_version: '4.0', receipts: [top], invocation: call },
      };
      expect(await runInNetwork<Outcome>('https-child.mjs', work)).toEqual({
        codes: ['DID_RESOLUTION_FAILED', 'valid'],
        asked: ['::ffff:10.1.2.3 inside.names.test/.well-known/did.json'],
      });
    });
  });
}
