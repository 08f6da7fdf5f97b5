import { createHmac, randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createVerifier, type Verifier, type VerifierOptions } from '../src/index.js';
import { IssueError, issueInvocation, issueRootDelegation, generateKey } from '../src/issue/index.js';
import { createMemoryReplayStore, drsMiddleware } from '../src/middleware/index.js';
import { toJcs } from '../src/protocol/jcs.js';
import { equalsByJcs } from '../src/protocol/json.js';
import { encodeBase64url } from '#platform';
import { readStatusList } from '../src/revocation/lists/read-status-list.js';
import { readConfiguration } from '../src/service/configuration/configuration.js';
import { newGate } from './gate/decide.js';
import { encode, liveCall, liveChain, now, OPEN } from './middleware/call.js';
import { listen, send, type TestServer } from './middleware/http.js';
import { listWith, credentialWith, LIST_ID, newIssuer, toJwt } from './revocation/lists.js';
import { ListServer } from './revocation/list-server.js';
import {
  childClaims,
  invocationClaims,
  invoke,
  makeChain,
  NOW,
  party,
  rootClaims,
  sha256,
  signJwt,
  type Overrides,
  type Party,
  type TestBundle,
} from './support/chain.js';

/**
 * Faults that were published about other verifiers, tried on this one. Each row is one kind of fault, with the number
 * of its advisory or a plain name.
 */
interface Advisory {
  readonly name: string;
  readonly attack: () => Promise<void>;
}

const opened: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const one of opened) await one.close();
});

function verifierWith(options: VerifierOptions = {}): Verifier {
  const verifier = createVerifier({ workerThreads: 0, ...options });
  opened.push(verifier);
  return verifier;
}

const codeOf = async (bundle: unknown, verifier = plain, options = {}): Promise<string> => {
  const verdict = await verifier.verify(bundle, { now: NOW, ...options });
  return verdict.valid ? 'valid' : verdict.error.code;
};

let plain: Verifier;
/** A route behind the middleware that counts the calls which reach its handler. */
let route: TestServer;
let handled = 0;

beforeAll(async () => {
  plain = verifierWith();
  const protect = drsMiddleware({
    verifier: plain,
    ...OPEN,
    tool: 'any',
    replayStore: createMemoryReplayStore(),
  });
  route = await listen((req, res) => {
    protect(req, res, () => {
      handled++;
      res.end('{}');
    });
  });
  opened.push(route);
});

/** A chain of two with another header at one place. That token is signed with its own issuer's key. */
function withHeader(at: 0 | 1 | 'invocation', header: unknown, resign = signJwt): TestBundle {
  const [root, agent, invoker] = [party(), party(), party()];
  const sign = (place: typeof at, claims: Overrides, signer: Party) =>
    place === at ? resign(claims, signer, header) : signJwt(claims, signer);
  const first = sign(0, rootClaims(root, agent), root);
  const second = sign(1, childClaims(first, root, agent, invoker), agent);
  const receipts = [first, second];
  const invocation = sign('invocation', invocationClaims(receipts, root, invoker), invoker);
  return { bundle_version: '4.0', receipts, invocation };
}

/** An HMAC with the public key as its secret, which a confused verifier takes for a signature. */
function signByHmac(claims: unknown, { did }: Party, header: unknown): string {
  const input = [header, claims].map((part) => encode(part as object)).join('.');
  return `${input}.${createHmac('sha256', did).update(input).digest('base64url')}`;
}

const withPolicy = (policy: Overrides, args: Overrides = { tool: 'search' }) =>
  invoke(makeChain(1, { 0: { policy } }), { args });

const KEYS_OF_BOTH_PLANES = ['\u{1f600}', '\ue000', 'a', '\uffff', '\u{10000}', 'é'];
// By code unit, surrogates (d800 to dfff) come before e000. RFC 8785 §3.2.3
const BY_CODE_UNIT = ['a', 'é', '\u{10000}', '\u{1f600}', '\ue000', '\uffff'];

const ADVISORIES: readonly Advisory[] = [
  {
    name: 'CVE-2026-35042: a critical header that is not understood is passed over',
    attack: async () => {
      const refusals: Record<string, string> = {
        0: 'MALFORMED_RECEIPT',
        1: 'MALFORMED_RECEIPT',
        invocation: 'MALFORMED_INVOCATION',
      };
      for (const at of [0, 1, 'invocation'] as const)
        for (const more of [
          { crit: ['x-must-understand'], 'x-must-understand': true },
          { crit: ['exp'] },
          { crit: [] },
          { crit: null },
          { crit: ['b64'], b64: false },
          { b64: true },
        ])
          expect(await codeOf(withHeader(at, { alg: 'EdDSA', ...more })), JSON.stringify([at, more])).toBe(
            refusals[at],
          );
      expect(await codeOf(withHeader(1, { alg: 'EdDSA', kid: 'any', 'x-other': 1 }))).toBe('valid');
      const issuer = newIssuer();
      const list = await toJwt(credentialWith([]), issuer);
      const [, payload = '', signature = ''] = list.split('.');
      const header = encode({ alg: 'EdDSA', crit: ['x'], x: 1 });
      const read = (text: string) =>
        readStatusList(Buffer.from(text), 'application/vc+jwt', {
          form: 'credential',
          id: 'any',
          nowMs: Date.now(),
        });
      await expect(read(`${header}.${payload}.${signature}`)).rejects.toThrow('crit');
      await expect(read(list)).resolves.toMatchObject({ bits: { length: 16_384 } });
    },
  },
  {
    name: 'CVE-2026-22817, CVE-2026-23993: the token says by which algorithm it is checked',
    attack: async () => {
      const names = ['none', 'None', 'HS256', 'ES256', 'RS256', 'Ed448', 'eddsa', '', null, 0, ['EdDSA']];
      for (const at of [0, 1, 'invocation'] as const)
        for (const alg of [...names, undefined]) {
          const sound = withHeader(at, { alg, typ: 'JWT' });
          const hmac = withHeader(at, { alg, typ: 'JWT' }, signByHmac);
          for (const bundle of [sound, hmac])
            expect(await codeOf(bundle), `${at} ${String(alg)}`).toBe('UNSUPPORTED_ALGORITHM');
        }
      // An allowed name does not change what is checked: always Ed25519 with the key of the DID.
      expect(await codeOf(withHeader('invocation', { alg: 'EdDSA' }, signByHmac))).toBe(
        'INVALID_INVOCATION_SIGNATURE',
      );
      expect(await codeOf(withHeader(0, { alg: 'EdDSA', jwk: { kty: 'oct', k: 'AA' } }, signByHmac))).toBe(
        'INVALID_SIGNATURE',
      );
      const list = `${encode({ alg: 'none' })}.${encode(credentialWith([]))}.AA`;
      await expect(
        readStatusList(Buffer.from(list), 'application/vc+jwt', {
          form: 'credential',
          id: 'any',
          nowMs: Date.now(),
        }),
      ).rejects.toThrow('alg');
    },
  },
  {
    name: 'CVE-2026-26308: only the first of two values of a header is checked',
    attack: async () => {
      const chain = liveChain(2);
      const args = { tool: 'search', query: 'tea' };
      const fresh = () => encode(liveCall(chain, args));
      const before = handled;
      const body = JSON.stringify(args);
      const headers = (...values: string[]) => values.map((value) => ['X-DRS-Bundle', value] as const);
      for (const values of [
        [fresh(), 'x'],
        ['x', fresh()],
        [fresh(), fresh()],
        ['', fresh()],
      ])
        for (const sent of [headers(...values), headers(values.join(', ')), headers(values.join(','))])
          expect(await send(route.url, [...sent, ['Content-Type', 'application/json']], body)).toMatchObject({
            status: 400,
            body: { error: { code: 'MULTIPLE_BUNDLES' } },
          });
      expect(handled).toBe(before);
      const gate = newGate();
      const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search', arguments: {} } };
      const asked = { 'X-DRS-Bundle': encode(liveCall(chain, { tool: 'search' })) };
      for (const more of [
        { 'Mcp-Name': ['search', 'delete'] },
        { 'Mcp-Method': ['tools/call', 'tools/list'] },
        { 'mcp-name': 'search', 'Mcp-Name': 'delete' },
      ])
        expect(
          await gate('mcp', { headers: { ...asked, ...more }, body: JSON.stringify(call) }),
        ).toMatchObject({ decision: 'deny', code: 'HEADER_MISMATCH' });
      expect(await gate('mcp', { headers: asked, body: JSON.stringify(call) })).toMatchObject({
        decision: 'allow',
      });
    },
  },
  {
    name: 'CVE-2026-26205: a path loses segments before it is compared',
    attack: async () => {
      const under = (cmd: string, called: string) =>
        codeOf(invoke(makeChain(2, { 0: { cmd }, 1: { cmd } }), { cmd: called }));
      for (const called of [
        '//mcp/tools/call',
        '/mcp//tools/call',
        '/mcp/tools/call/',
        '/mcp/tools/call/..',
        '/mcp/tools/call/../admin',
        '/./mcp/tools/call',
        'mcp/tools/call',
      ])
        expect(await under('/mcp/tools', called), called).toBe('MALFORMED_INVOCATION');
      for (const called of ['/tools/call', '/mcp/toolsx', '/mcp', '/mcp/tool', '/MCP/tools/call'])
        expect(await under('/mcp/tools', called), called).toBe('COMMAND_MISMATCH');
      expect(await under('/mcp/tools', '/mcp/tools/call')).toBe('valid');
      const resources = { allowed_resources: ['file:///data/*'] };
      for (const resource_uri of [
        'file:///data/../etc/passwd',
        'file:///data/%2e%2E/etc/passwd',
        'file:///data/.\t./etc/passwd',
        'file:///data/a/..%2f..%2fetc',
        'file:///data\\..\\etc',
        'file:////data/a',
        'file:///data',
      ])
        expect(await codeOf(withPolicy(resources, { resource_uri })), resource_uri).toBe('POLICY_VIOLATION');
      expect(await codeOf(withPolicy(resources, { resource_uri: 'file:///data/a' }))).toBe('valid');
    },
  },
  {
    name: 'JCS sorts member names by code point instead of by UTF-16 code unit',
    attack: async () => {
      const args: Record<string, number | string> = { tool: 'search' };
      for (const [value, key] of KEYS_OF_BOTH_PLANES.entries()) args[key] = value;
      const text = toJcs(args);
      expect(Object.keys(JSON.parse(text) as object)).toEqual([
        'a',
        'tool',
        ...BY_CODE_UNIT.filter((key) => key !== 'a'),
      ]);
      // Issued receipts are in that order, and bind to a body in any order.
      const key = generateKey();
      const agent = generateKey();
      const receipt = await issueRootDelegation({
        key,
        audience: agent.did,
        command: '/mcp/tools/call',
        policy: { allowed_tools: ['search'] },
        rootType: 'agent',
        expiresAt: now() + 600,
      });
      const invocation = await issueInvocation({ key: agent, chain: [receipt], args, toolServer: 'any' });
      const payload = Buffer.from(invocation.split('.')[1] ?? '', 'base64url').toString();
      expect(payload).toContain(text);
      const bundle = { bundle_version: '4.0', receipts: [receipt], invocation };
      const shuffled = Object.fromEntries(Object.entries(args).reverse());
      expect(await plain.verify(bundle, { body: shuffled })).toMatchObject({ valid: true, binding: 'match' });
      expect(equalsByJcs(args, shuffled)).toBe(true);
    },
  },
  {
    name: 'a budget that is NaN, negative or infinite compares as enough',
    attack: async () => {
      const texts = ['-1', '-1e-9', '1e400', '-1e400', '"5"', '"NaN"', '[5]', '{}', 'true'];
      for (const member of ['max_cost_usd', 'max_total_cost_usd', 'max_calls', 'max_delegations'])
        for (const text of texts) {
          const [root, agent] = [party(), party()];
          const payload = JSON.stringify(rootClaims(root, agent, { policy: { [member]: '#' } }));
          const receipts = [signJwt(payload.replace('"#"', text), root)];
          const invocation = signJwt(invocationClaims(receipts, root, agent), agent);
          expect(await codeOf({ bundle_version: '4.0', receipts, invocation }), `${member} ${text}`).toBe(
            'MALFORMED_RECEIPT',
          );
        }
      for (const text of [...texts, 'null', '5.000000000000001', 'false', '""']) {
        const chain = makeChain(2, {
          0: { policy: { max_cost_usd: 5 } },
          1: { policy: { max_cost_usd: 5 } },
        });
        const [root, invoker] = [chain.parties[0] as Party, chain.parties[2] as Party];
        const args = { tool: 'search', estimated_cost_usd: '#' };
        const payload = JSON.stringify(invocationClaims(chain.receipts, root, invoker, { args }));
        const invocation = signJwt(payload.replace('"#"', text), invoker);
        const { receipts } = chain;
        // A number that a double cannot hold has no defined value that could be limited.
        const expected = text.includes('e400')
          ? /^(POLICY_VIOLATION|MALFORMED_INVOCATION)$/
          : /^POLICY_VIOLATION$/;
        expect(await codeOf({ bundle_version: '4.0', receipts, invocation }), text).toMatch(expected);
      }
      for (const clockSkewSecs of [Number.NaN, -1, Infinity, 0.5])
        expect(() => createVerifier({ clockSkewSecs })).toThrow('clockSkewSecs');
      const key = generateKey();
      for (const max_cost_usd of [Number.NaN, -1, Infinity])
        await expect(
          issueRootDelegation({
            key,
            audience: party().did,
            command: '/a',
            policy: { max_cost_usd },
            rootType: 'agent',
            expiresAt: now() + 600,
          }),
        ).rejects.toThrow(IssueError);
    },
  },
  {
    name: 'an invocation without a jti is not looked up among those that were used',
    attack: async () => {
      const verifier = verifierWith({ replayProtection: 'memory' });
      const chain = liveChain(1);
      for (const [jti, code] of [
        [undefined, 'MALFORMED_INVOCATION'],
        [null, 'MALFORMED_INVOCATION'],
        [7, 'MALFORMED_INVOCATION'],
        [['inv:1'], 'MALFORMED_INVOCATION'],
        ['', 'INVALID_JTI'],
        ['inv:', 'INVALID_JTI'],
        ['dr:1', 'INVALID_JTI'],
        ['INV:1', 'INVALID_JTI'],
      ] as const) {
        const bundle = liveCall(chain, { tool: 'search' }, { jti });
        for (let use = 0; use < 2; use++)
          expect(await codeOf(bundle, verifier, { now: now() }), String(jti)).toBe(code);
      }
      const bundle = liveCall(chain, { tool: 'search' });
      expect(await codeOf(bundle, verifier, { now: now() })).toBe('valid');
      expect(await codeOf(bundle, verifier, { now: now() })).toBe('REPLAY_DETECTED');
    },
  },
  {
    name: 'a call that is refused for its body uses up its jti, and the honest retry is a replay',
    attack: async () => {
      const args = { tool: 'search', query: 'tea' };
      const bundle = liveCall(liveChain(1), args);
      const post = (body: unknown) =>
        send(
          route.url,
          [
            ['X-DRS-Bundle', encode(bundle)],
            ['Content-Type', 'application/json'],
          ],
          JSON.stringify(body),
        );
      for (let attempt = 0; attempt < 3; attempt++)
        expect((await post({ ...args, query: 'gold' })).status).toBe(403);
      expect((await post(args)).status).toBe(200);
      expect((await post(args)).status).toBe(409);
      const strict = verifierWith({ replayProtection: 'memory', requireBinding: true });
      const other = liveCall(liveChain(1), args);
      const verdicts = [];
      for (const body of [{ ...args, query: 'gold' }, undefined, args, args])
        verdicts.push(await codeOf(other, strict, { now: now(), body }));
      expect(verdicts).toEqual(['BINDING_MISMATCH', 'BINDING_REQUIRED', 'valid', 'REPLAY_DETECTED']);
    },
  },
  {
    name: 'a cached verdict outlives revocation, expiry and a shorter body',
    attack: async () => {
      const verifier = verifierWith();
      const chain = makeChain(3, { 1: { drs_status_list_index: 7 } });
      const args = { tool: 'search', query: 'tea' };
      const bundle = invoke(chain, { args });
      for (let time = 0; time < 3; time++)
        expect(await verifier.verify(bundle, { now: NOW, body: args })).toMatchObject({
          valid: true,
          binding: 'match',
        });
      expect(await codeOf(bundle, verifier, { now: NOW + 3601 })).toBe('EXPIRED');
      expect(await codeOf(bundle, verifier, { now: NOW - 91 })).toBe('NOT_YET_VALID');
      expect(await codeOf(bundle, verifier, { now: NOW })).toBe('valid');
      expect(await verifier.verify(bundle, { now: NOW, body: { tool: 'search' } })).toMatchObject({
        binding: 'mismatch',
      });
      await verifier.revoke(7);
      expect(await codeOf(bundle, verifier, { now: NOW })).toBe('RECEIPT_REVOKED');
      expect(await codeOf(invoke(chain, { args, jti: 'inv:2' }), verifier)).toBe('RECEIPT_REVOKED');
    },
  },
  {
    name: 'an empty list of trusted roots trusts everybody',
    attack: async () => {
      expect(() => createVerifier({ trustedRoots: [] })).toThrow('trustedRoots');
      expect(() =>
        drsMiddleware({ ...OPEN, verifier: plain, tool: 'any', trustedRoots: [] as never }),
      ).toThrow('trustedRoots');
      for (const text of ['', ' ', ',', ' , '])
        expect(() => readConfiguration({ TRUSTED_ROOTS: text }), JSON.stringify(text)).toThrow(
          'TRUSTED_ROOTS',
        );
      const chain = liveChain(1);
      const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search' } };
      const asked = {
        headers: { 'X-DRS-Bundle': encode(liveCall(chain, { tool: 'search' })) },
        body: JSON.stringify(call),
      };
      expect(await newGate({ trustedRoots: new Set() })('mcp', asked)).toMatchObject({
        decision: 'deny',
        code: 'UNTRUSTED_ROOT',
      });
      const others = verifierWith({ trustedRoots: [party().did] });
      expect(await codeOf(invoke(makeChain(1)), others)).toBe('UNTRUSTED_ROOT');
    },
  },
  {
    name: 'an index beyond the end of the status list counts as not revoked',
    attack: async () => {
      const host = await ListServer.start();
      opened.push(host);
      host.serve('application/vc', listWith([3]));
      const verifier = verifierWith({ statusListBaseUrl: host.url, statusListId: LIST_ID });
      const withIndex = (index: number) =>
        codeOf(invoke(makeChain(1, { 0: { drs_status_list_index: index } })), verifier);
      // A verification waits for the list for two seconds, and is refused without it.
      await expect.poll(() => withIndex(3)).toBe('RECEIPT_REVOKED');
      expect(await withIndex(131_071)).toBe('valid');
      // The last ones are those of which 32 bits are an index of the list.
      for (const index of [131_072, 2 ** 31, 2 ** 32, 2 ** 32 + 4, 2 ** 35 + 4, 2 ** 53 - 1])
        expect(await withIndex(index), String(index)).toBe('STATUS_INDEX_OUT_OF_RANGE');
      for (const index of [-1, 0.5, 2 ** 53, '3', true])
        expect(await withIndex(index as number), String(index)).toBe('MALFORMED_RECEIPT');
    },
  },
  {
    name: 'a small packed body unpacks to all of the memory',
    attack: async () => {
      // 23 kB as sent. In the same way, 1 GiB would take only 1 MiB.
      const bomb = `u${encodeBase64url(gzipSync(Buffer.alloc(17 * 1024 * 1024), { level: 9 }))}`;
      const credential = credentialWith([], { credentialSubject: { encodedList: bomb } });
      const options = { form: 'credential', id: 'any', nowMs: Date.now() } as const;
      await expect(
        readStatusList(Buffer.from(JSON.stringify(credential)), 'application/vc', options),
      ).rejects.toThrow('unpacks to more than');
      const host = await ListServer.start();
      opened.push(host);
      host.serve('application/vc', JSON.stringify(credential));
      const verifier = verifierWith({ statusListBaseUrl: host.url, statusListId: LIST_ID });
      const bundle = invoke(makeChain(1, { 0: { drs_status_list_index: 1 } }));
      expect(await codeOf(bundle, verifier)).toBe('REVOCATION_CHECK_FAILED');
      // A packed request body is not unpacked at all.
      const args = { tool: 'search', query: 'tea' };
      const before = handled;
      const packed = gzipSync(JSON.stringify(args));
      for (const encoding of ['gzip', 'br', 'deflate', 'identity, gzip', 'x-gzip'])
        expect(
          await send(
            route.url,
            [
              ['X-DRS-Bundle', encode(liveCall(liveChain(1), args))],
              ['Content-Type', 'application/json'],
              ['Content-Encoding', encoding],
            ],
            packed,
          ),
          encoding,
        ).toMatchObject({ status: 403, body: { error: { code: 'BINDING_MISMATCH' } } });
      expect(handled).toBe(before);
    },
  },
  {
    name: 'the claims of another token come out of a cache whose keys collide',
    attack: async () => {
      const verifier = verifierWith();
      const chain = makeChain(2);
      expect(await codeOf(invoke(chain), verifier)).toBe('valid');
      expect(await codeOf(invoke(chain, { jti: 'inv:2' }), verifier)).toBe('valid');
      // Other claims with the same signature (the cache key), at each place of the chain, with all later links made
      // again.
      const altered = chain.receipts.map((jwt) => {
        const [header, payload = '', signature] = jwt.split('.');
        const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Overrides;
        const wider = { ...claims, policy: { allowed_tools: ['*'], max_cost_usd: 1e6 }, exp: NOW + 9_999 };
        return `${header}.${encode(wider)}.${signature}`;
      });
      const [first = '', second = ''] = chain.receipts;
      const [widerFirst = '', widerSecond = ''] = altered;
      const call = { args: { tool: 'delete', estimated_cost_usd: 1000 } };
      const asked = (...receipts: string[]) => invoke({ parties: chain.parties, receipts }, call);
      for (let time = 0; time < 2; time++) {
        expect(await codeOf(asked(first, widerSecond), verifier)).toBe('INVALID_SIGNATURE');
        expect(await codeOf(asked(widerFirst, second), verifier)).toBe('CHAIN_BREAK');
        expect(await codeOf(asked(widerFirst), verifier)).toMatch(/INVOKER_MISMATCH/);
        expect(await codeOf(asked(first, second), verifier)).toBe('POLICY_VIOLATION');
      }
      // The same leaf under another root that has it as its child by name only.
      const stranger = makeChain(1);
      expect(await codeOf(asked(stranger.receipts[0] as string, second), verifier)).toBe('CHAIN_BREAK');
      expect(sha256(first)).not.toBe(sha256(widerFirst));
      // Two invocations whose issuer and jti give the same text when joined are different invocations.
      const used = verifierWith({ replayProtection: 'memory' });
      const live = liveChain(1);
      const jti = `inv:${randomUUID()}`;
      for (const name of [jti, `${jti} `, `:${jti}`.replace(/^:inv/, 'inv:')])
        expect(
          await codeOf(liveCall(live, { tool: 'search' }, { jti: name }), used, { now: now() }),
          name,
        ).toBe('valid');
    },
  },
];

test.each(ADVISORIES.map(({ name, attack }) => [name, attack] as const))('%s', async (_, attack) => attack());
