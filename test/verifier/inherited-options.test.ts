import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DrsClient } from '../../src/client/index.js';
import { createConsent, generateKey, issueInvocation, issueRootDelegation } from '../../src/issue/index.js';
import { issueSubDelegation } from '../../src/issue/index.js';
import { sshAgentSigner } from '../../src/issue/ssh-agent.js';
import { drsA2a, drsExtension } from '../../src/middleware/a2a/index.js';
import { drsFastify } from '../../src/middleware/fastify/index.js';
import { drsHono } from '../../src/middleware/hono/index.js';
import { createMemoryReplayStore, drsFetch, drsMiddleware, signFetch } from '../../src/middleware/index.js';
import { drsMcp, signCalls } from '../../src/middleware/mcp/index.js';
import { createVerifier as createPureVerifier } from '../../src/pure/index.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { sodium } from '../../src/signatures/sodium.js';
import { openRedisReplayStore } from '../../src/usage/redis-store.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { encode, liveCall, liveChain, OPEN, OPEN_ROUTE } from '../middleware/call.js';
import { askMcp } from '../support/mcp-message.js';

/**
 * What somebody adds to `Object.prototype`, as a dependency that merges JSON carelessly does, is no option: of each door, for each
 * option, with each value, the outcome is the same.
 */

const VALUES: readonly unknown[] = [
  true,
  false,
  0,
  1,
  4e9,
  'any',
  'off',
  '{"tool":"search"}',
  ['x'],
  null,
  {},
  () => true,
];

const chain = liveChain(2);
const args = { tool: 'search' };
const valid = liveCall(chain, args);
const verifierOf = (options: object) => createVerifier({ workerThreads: 0, ...options });
const verifier = verifierOf({});

/** What a handler is asked, with a body that was signed, with another, and without a bundle. */
async function answersOf(handler: (request: Request) => Promise<Response>): Promise<unknown> {
  const requests = [args, { tool: 'delete' }].map((body) => ({
    headers: { 'content-type': 'application/json', 'x-drs-bundle': encode(valid) },
    body: JSON.stringify(body),
    method: 'POST',
  }));
  const answers = [];
  for (const init of [...requests, { ...requests[0], headers: {} }]) {
    const answer = await handler(new Request('http://a.example/', init));
    answers.push([answer.status, await answer.text()]);
  }
  return answers;
}

const alice = generateKey();
const bot = generateKey();
const consent = createConsent({ text: 'Bot may search.', locale: 'en', method: 'test', now: 1 });
const delegation = { audience: bot.did, policy: {} };
const root = await issueRootDelegation({ ...delegation, key: alice, command: '/mcp', consent });
const call = { key: bot, chain: [root], args, toolServer: 'https://a.example' };
const quietly = { onError: () => undefined };

/** Each door: the names of its options, and what comes of it where only what is needed is said. */
const DOORS: Record<string, readonly [names: string, run: () => unknown]> = {
  createVerifier: [
    `maxChainDepth clockSkewSecs serverIdentity trustedRoots trustedRootsFile requireBinding workerThreads receiptCacheBytes
     revocationStore revocationStorePath revocationMaxEntries revocationMinReplicas statusListBaseUrl statusListId statusCacheTtlSecs
     statusMaxStaleSecs statusFetchTimeoutMs statusListIssuer replayProtection replayWindowSecs replayMaxEntries redisUrl redisTimeoutMs`,
    async () => {
      const made = verifierOf({});
      const verdicts = [await made.verify(valid), await made.verify(valid), await made.verify(expired)];
      await made.close();
      return verdicts;
    },
  ],
  'verify of createVerifier': [
    'body bodyText details now',
    async () => [await verifier.verify(valid), await verifier.verify(expired, {})],
  ],
  'createVerifier of pure': [
    'sodium revocation maxChainDepth clockSkewSecs serverIdentity trustedRoots requireBinding body bodyText details now',
    async () => {
      const made = createPureVerifier({ sodium });
      return [await made.verify(valid), await made.verify(expired), await made.verify(valid, {})];
    },
  ],
  DrsClient: [
    'timeoutMs retries connections shareExchanges body bodyText details',
    async () => {
      const sent: unknown[] = [];
      const fetch = async (_url: unknown, init?: RequestInit) => {
        sent.push(init?.body);
        return Promise.resolve(
          new Response('{"valid":false,"error":{"code":"a","message":"b","suggestion":"c"}}'),
        );
      };
      const client = new DrsClient('https://a.example', { fetch });
      return [await client.verify(valid), await client.verify(valid, {}), sent];
    },
  ],
  drsFetch: [
    `verifyUrl replayScope replayWindowSecs clockSkewSecs optional onToolCall onRefused eventSink command parameters bindingMode
     maxBodyBytes bodyText body sign checkTransport`,
    () => answersOf(drsFetch({ ...OPEN_ROUTE, ...quietly, verifier }, () => new Response('served'))),
  ],
  'what drsFetch must be told': [
    'verifier trustedRoots serverIdentity replayStore tool',
    () => drsFetch({} as never, () => new Response('served')),
  ],
  'what drsMiddleware must be told': [
    'verifier trustedRoots serverIdentity replayStore tool errors',
    () => drsMiddleware({} as never),
  ],
  'what drsHono must be told': [
    'verifier trustedRoots serverIdentity replayStore tool',
    () => drsHono({} as never),
  ],
  'what drsFastify must be told': [
    'verifier trustedRoots serverIdentity replayStore tool errors',
    () => new Promise((resolve) => drsFastify({} as never, {} as never, (error) => resolve(String(error)))),
  ],
  'what drsA2a must be told': ['verifier trustedRoots serverIdentity replayStore', () => drsA2a({} as never)],
  drsMcp: [
    'verifyUrl replayScope optional protect passMethods',
    async () => {
      const request = { method: 'tools/call', params: { name: 'search', arguments: {} } };
      return askMcp(drsMcp({ ...OPEN, ...quietly, verifier }), request, () => 'served');
    },
  ],
  createMemoryReplayStore: ['maxEntries log', () => createMemoryReplayStore().capacity],
  'what openRedisReplayStore must be told': ['url timeoutMs log', () => openRedisReplayStore({} as never)],
  // Without an agent: while it waited for one, others would read what is added, such as prom-client.
  sshAgentSigner: ['key socket', () => sshAgentSigner()],
  drsExtension: ['askAt', () => drsExtension({ serverIdentity: 'https://a.example' })],
  issueRootDelegation: [
    'now notBefore expiresAt statusListIndex jti rootType',
    () => issueRootDelegation({ ...delegation, key: alice, command: '/mcp', consent }),
  ],
  'what issueRootDelegation must be told': [
    'key audience policy command consent',
    () => issueRootDelegation({} as never),
  ],
  issueSubDelegation: [
    'now notBefore expiresAt statusListIndex jti command maxChainDepth unchecked',
    () => issueSubDelegation({ ...delegation, key: bot, chain: [root] }),
  ],
  issueInvocation: ['command now jti maxChainDepth unchecked', () => issueInvocation(call)],
  createConsent: [
    'sessionId now',
    () => createConsent({ text: 'Bot may search.', locale: 'en', method: 'test' }),
  ],
  signFetch: [
    'command sign parameters carrier',
    async () => {
      const sent: unknown[] = [];
      const send = (input: unknown, init?: RequestInit) => {
        sent.push(input, init?.body, [...new Headers(init?.headers)]);
        return Promise.resolve(new Response(''));
      };
      const fetch = signFetch({ ...call, key: bot }, { fetch: send });
      await fetch('http://a.example/', { method: 'POST', body: JSON.stringify(args) });
      return sent;
    },
  ],
  signCalls: [
    'sign carriers',
    async () => {
      const sent: unknown[] = [];
      const send = async (message: unknown) => Promise.resolve(void sent.push(message));
      const transport = {
        start: nothing,
        send: async (message: unknown) => Promise.resolve(sent.push(message)),
        _fetch: undefined,
      };
      const client = signCalls({ connect: send }, call);
      await client.connect(transport);
      const request = {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'search', arguments: {} },
      };
      await transport.send(request);
      return sent;
    },
  ],
  readConfiguration: [
    'CLOCK_SKEW_SECS TRUSTED_ROOTS REQUIRE_BINDING GATE_REPLAY DRS_ADMIN_TOKEN DRS_ADMIN_TOKEN_FILE PORT trustedRoots gateReplay',
    () => ({ ...readConfiguration({}), workerThreads: 0 }),
  ],
};
const nothing = () => Promise.resolve();
const expired = liveCall(liveChain(1, { nbf: 1, iat: 1, exp: 2 }), args);

const outcomeOf = async (run: () => unknown): Promise<string> => {
  try {
    return JSON.stringify(await run());
  } catch (error) {
    return String(error);
  }
};

beforeEach(() => {
  vi.stubEnv('SSH_AUTH_SOCK', undefined);
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.spyOn(crypto, 'randomUUID').mockReturnValue('00000000-0000-4000-8000-000000000000');
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

it.each(Object.entries(DOORS))('no option of %s is inherited', async (_, [names, run]) => {
  const alone = await outcomeOf(run);
  for (const name of names.split(/\s+/)) {
    expect(Object.prototype).not.toHaveProperty(name);
    for (const value of VALUES) {
      Object.defineProperty(Object.prototype, name, {
        value,
        configurable: true,
        enumerable: true,
        writable: true,
      });
      const polluted = await outcomeOf(run).finally(() => Reflect.deleteProperty(Object.prototype, name));
      expect([name, value, polluted]).toEqual([name, value, alone]);
    }
  }
});
