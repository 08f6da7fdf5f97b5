import { afterAll, expect, it } from 'vitest';
import { InThreadVerifier } from '../../src/signatures/in-thread.js';
import { WebKeys } from '../../src/trust/did-web.js';
import { readRoot } from '../../src/trust/read-root.js';
import { judge } from '../../src/verify/judge.js';
import { NOTHING_REVOKED, plainRoot, type JudgeParts, type Root } from '../../src/verify/parts.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import {
  childClaims,
  HEADER,
  invocationClaims,
  NOW,
  party,
  rootClaims,
  signJwt,
  type Party,
} from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { RULES } from '../support/receipts.js';
import { DocumentServer, newKey } from '../trust/documents.js';
import { Random } from './generator/random.js';
import { fromValue } from './json.js';
import { verify } from './oracle.js';

const ROUNDS = 8;
const BUNDLES = 100;
/** Those of the last rounds are asked about again, whatever has changed. */
const KEPT = 160;
const random = new Random(20_261_129);
const server = await DocumentServer.start();
afterAll(() => server.close());

/** Few keys, so that one is in many documents, under several names. */
const KEYS = ['1', '2', '3', '4', '5'].map(newKey);
const NAMES = ['acme', 'globex', 'agent', 'helper', 'gone'];
const ROOTS = new Set(NAMES.slice(0, 2).map((name) => server.didOf(name)));
const people = [party(), party()];
const dids = [
  ...NAMES.map((name) => server.didOf(name)),
  server.didOf('norow'),
  ...people.map(({ did }) => did),
];

/** A method for a key, as a rule one that counts. */
function methodOf(did: string): object {
  const { name, multibase, key } = random.pick(KEYS);
  const id = random.pick([`${did}#${name}`, `#${name}`, `${did}#${random.pick(KEYS).name}`]);
  const { x } = key.export({ format: 'jwk' });
  const publicKeyJwk = { kty: 'OKP', crv: 'Ed25519', x, ...(random.chance(0.05) && { d: x }) };
  const form = random.chance(0.5)
    ? { type: random.pick(['Multikey', 'Ed25519VerificationKey2020']), publicKeyMultibase: multibase }
    : { type: random.pick(['JsonWebKey', 'JsonWebKey2020']), publicKeyJwk };
  return {
    ...{ id, controller: random.chance(0.95) ? did : dids[0], ...form },
    ...(random.chance(0.05) && { type: 'Ed25519VerificationKey2018' }),
    ...(random.chance(0.05) && { revoked: '2020-01-01T00:00:00Z' }),
    ...(random.chance(0.1) && {
      expires: random.pick(['2020-01-01T00:00:00Z', '2090-01-01T00:00:00Z', 'soon']),
    }),
  };
}

function newDocument(did: string): string {
  const verificationMethod = Array.from({ length: random.below(4) }, () => methodOf(did));
  const named = () => random.pick([`${did}#`, '#']) + random.pick(KEYS).name;
  const assertionMethod = Array.from({ length: random.below(7) }, () =>
    random.chance(0.5) ? named() : methodOf(did),
  );
  const id = random.chance(0.95) ? did : `${did}:x`;
  return JSON.stringify({ id, verificationMethod, assertionMethod, authentication: [methodOf(did)] });
}

const signerOf = (did: string): Party =>
  people.find((one) => one.did === did) ?? { did, key: random.pick(KEYS).key };

function sign(claims: object, did: string): string {
  const name = random.pick([...KEYS.map((key) => key.name), '6']);
  const kid = random.pick([
    undefined,
    undefined,
    name,
    `#${name}`,
    `${did}#${name}`,
    `${dids[0]}#${name}`,
    7,
  ]);
  return signJwt(claims, signerOf(did), kid === undefined ? HEADER : { ...HEADER, kid });
}

function newBundle() {
  const chain = Array.from({ length: 2 + random.below(3) }, () => ({ did: random.pick(dids) }) as Party);
  const root = chain[0] as Party;
  const receipts: string[] = [];
  for (const [at, issuer] of chain.slice(0, -1).entries()) {
    const [audience, parent] = [chain[at + 1] as Party, receipts.at(-1)];
    const claims =
      parent === undefined ? rootClaims(root, audience) : childClaims(parent, root, issuer, audience);
    receipts.push(sign(claims, issuer.did));
  }
  const agent = chain.at(-1) as Party;
  return {
    bundle_version: '4.0',
    receipts,
    invocation: sign(invocationClaims(receipts, root, agent), agent.did),
  };
}

it('verdicts are those of the specification, while documents change', { timeout: 240_000 }, async () => {
  const keys = new WebKeys({ log: { info() {}, warn() {} } });
  const trustedRoots = {
    get: (did: string) => (ROOTS.has(did) || people.some((one) => one.did === did) ? plainRoot() : undefined),
  };
  const parts: JudgeParts = {
    ...{ rules: { ...RULES, trustedRoots }, cache: new ReceiptCache(1e7), keys },
    ...{
      signatures: new InThreadVerifier(),
      clock: () => NOW,
      requiresBinding: false,
      requiresApproval: true,
      use: null,
    },
    revocation: { refreshIfStale: () => null, refreshLists: () => null, view: NOTHING_REVOKED },
  };
  const roots = [...ROOTS, ...people.map(({ did }) => did)];
  /** The last text of each that was a document. */
  const usable = new Map<string, string | undefined>(NAMES.map((name) => [server.didOf(name), undefined]));
  const codes = new Map<string, number>();
  const bundles: ReturnType<typeof newBundle>[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of NAMES) {
      const did = server.didOf(name);
      const text = newDocument(did);
      if (name === 'gone' || random.chance(0.1)) server.documents.delete(name);
      else {
        server.documents.set(name, text);
        if ((JSON.parse(text) as { id: string }).id === did) usable.set(did, text);
      }
    }
    const asked = new Map(NAMES.map((name) => [name, server.timesAsked(name)]));
    if (round === 0) {
      const rows = NAMES.map((name) => {
        const did = server.didOf(name);
        const read = readRoot({
          did,
          root: ROOTS.has(did),
          key_fresh_secs: 1,
          addresses: ['127.0.0.1'],
        });
        return [did, (read as { value: Root }).value] as const;
      });
      keys.follow(rows);
    }
    // The second fetch begins when the first one has been read.
    for (const [name, times] of asked)
      await eventually(() => expect(server.timesAsked(name)).toBeGreaterThanOrEqual(times + 2), 10);
    for (let more = 0; more < BUNDLES; more++) bundles.push(newBundle());
    bundles.splice(0, bundles.length - KEPT);
    for (const bundle of bundles) {
      const question = {
        ...{ body: undefined, now: NOW, settings: { trustedRoots: roots } },
        documents: usable,
      };
      const revocation = { remote: 'none', local: new Set<string>() } as const;
      const answer = verify({ ...question, bundle: fromValue(bundle), revocation });
      const code = answer.valid ? 'valid' : answer.code;
      codes.set(code, (codes.get(code) ?? 0) + 1);
      // The second time by what is remembered.
      for (const time of ['first', 'second']) {
        const { failure } = await judge({ bundle, body: null }, parts);
        expect([time, round, failure?.code ?? 'valid', failure?.message, bundle]).toEqual([
          ...[time, round, code, failure?.message, bundle],
        ]);
      }
    }
  }
  keys.close();
  const expected = ['valid', 'INVALID_SIGNATURE', 'INVALID_INVOCATION_SIGNATURE', 'UNTRUSTED_ROOT'];
  for (const code of [...expected, 'UNRESOLVABLE_DID', 'DID_RESOLUTION_FAILED'])
    expect([code, (codes.get(code) ?? 0) > 5]).toEqual([code, true]);
});
