import { afterAll, beforeAll, expect, it } from 'vitest';
import { createVerifier } from '../../src/index.js';
import {
  createBundle,
  generateKey,
  issueInvocation,
  issueRootDelegation,
  issueSubDelegation,
  signAs,
  type Signer,
} from '../../src/issue/index.js';
import { DocumentServer } from '../trust/documents.js';

let server: DocumentServer;
beforeAll(async () => {
  server = await DocumentServer.start();
});
afterAll(() => server.close());

/** A name whose document has these keys, and who signs by it. */
function publish(name: string, ...keys: readonly ReturnType<typeof generateKey>[]) {
  const named = keys.map(({ did }, at) => ({ name: String(at), multibase: did.slice(8) }));
  server.publish(name, ...(named as unknown as Parameters<DocumentServer['publish']>[1][]));
  return {
    signAs: (key: Signer, at?: number) =>
      signAs(key, server.didOf(name) + (at === undefined ? '' : `#${at}`)),
  };
}

const call = { args: { tool: 'search', estimated_cost_usd: 0 }, toolServer: 'https://tools.example' };
const root = { command: '/mcp/tools/call', policy: {}, rootType: 'organisation' };

it.each([undefined, 1])('a chain of names is issued, and verifies, with a kid of %s', async (at) => {
  const [key, old] = [generateKey(), generateKey()];
  const acme = publish('acme', old, key).signAs(key, at);
  const agent = publish('agent', old, key).signAs(key, at);
  const helper = publish('helper', old, key).signAs(key, at);
  const first = await issueRootDelegation({ ...root, key: acme, audience: agent.did });
  const second = await issueSubDelegation({ key: agent, chain: [first], audience: helper.did, policy: {} });
  const receipts = [first, second];
  const invocation = await issueInvocation({ key: helper, chain: receipts, ...call });
  const header = JSON.parse(Buffer.from(invocation.split('.')[0] ?? '', 'base64url').toString()) as object;
  expect(header).toEqual({ alg: 'EdDSA', ...(at !== undefined && { kid: `${helper.did}#1` }), typ: 'JWT' });
  const addresses = ['127.0.0.1'];
  const trustedRoots = ['acme', 'agent', 'helper'].map((name) => ({
    ...{ did: server.didOf(name), addresses },
    ...(name !== 'acme' && { root: false }),
  }));
  const verifier = createVerifier({ workerThreads: 0, trustedRoots });
  expect(await verifier.verify(createBundle({ receipts, invocation }))).toMatchObject({ valid: true });
  await verifier.close();
});

it('who is under a name signs what stays within it', async () => {
  const key = generateKey();
  const acme = signAs(generateKey(), 'did:web:acme.example');
  const first = await issueRootDelegation({
    ...root,
    key: acme,
    audience: key.did,
    policy: { max_cost_usd: 1 },
  });
  const invocation = issueInvocation({ key, chain: [first], ...call });
  expect(await invocation).toBeTypeOf('string');
  const dear = { ...call, args: { tool: 'search', estimated_cost_usd: 2 } };
  await expect(issueInvocation({ key, chain: [first], ...dear })).rejects.toMatchObject({
    code: 'POLICY_VIOLATION',
  });
  const other = generateKey();
  await expect(issueInvocation({ key: other, chain: [first], ...call })).rejects.toMatchObject({
    code: 'INVOKER_MISMATCH',
  });
  const [header, payload] = first.split('.');
  const forged = [header, payload, 'AAAA'].join('.');
  // Only verifiers know the keys of a name.
  expect(await issueInvocation({ key, chain: [forged], ...call })).toBeTypeOf('string');
});

it.each([
  'did:key:z6Mk',
  'acme.example',
  'did:web:Acme.example',
  'did:web:acme.example#',
  'did:web:127.0.0.1#1',
  '',
])('nobody signs as %j', (id) => {
  expect(() => signAs(generateKey(), id)).toThrow('expected a did:key and a did:web');
});

it('a name is signed for by a key that is known', async () => {
  const acme = signAs(generateKey(), 'did:web:acme.example');
  expect(() => signAs(acme, 'did:web:b.example')).toThrow('expected a did:key and a did:web');
  const issue = (key: Signer) => issueRootDelegation({ ...root, key, audience: generateKey().did });
  await expect(issue({ did: acme.did, sign: (bytes) => acme.sign(bytes) })).rejects.toMatchObject({
    code: 'INVALID_KEY',
  });
  const other = generateKey();
  await expect(issue({ ...acme, publicKey: other.publicKey })).rejects.toMatchObject({ code: 'INVALID_KEY' });
  await expect(
    issueRootDelegation({ ...root, key: acme, audience: 'did:web:B.example' }),
  ).rejects.toMatchObject({
    code: 'UNRESOLVABLE_DID',
    message: 'audience is "did:web:B.example", expected a did:key of an Ed25519 key, or a did:web',
  });
});
