import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { generateKey, issueRootDelegation, createConsent, IssueError } from '../../src/issue/index.js';
import {
  createMemoryReplayStore,
  drsContext,
  drsMcp,
  type Delegation,
  type ToolCallEvent,
} from '../../src/middleware/mcp/index.js';
import { encode, liveCall, OPEN } from './call.js';
import { ATTACKS, call, chain, invalid, KEY, principal, search } from './mcp-attacks.js';
import type { TestServer } from './http.js';
import { GENERATIONS, type Connection, type ToolCaller } from './mcp-generations.js';
import { SOURCES } from './sources.js';

const delegation = async (): Promise<Delegation> => {
  const [person, agent] = [generateKey(), generateKey()];
  const consent = createConsent({ text: 'Search for me.', locale: 'en', method: 'explicit-ui-click' });
  const root = await issueRootDelegation({
    key: person,
    audience: agent.did,
    command: '/mcp/tools/call',
    policy: { allowed_tools: ['search'] },
    consent,
  });
  return { key: agent, chain: [root], toolServer: 'https://tools.example' };
};

// Where verdicts come from makes no difference to a transport: with one source all are tried, with a service one. A pool of its
// own is in test/middleware/attacks.test.ts.
describe.each(SOURCES.filter(([name]) => name !== 'in an own pool'))('with verdicts %s', (source, open) => {
  let opened: Awaited<ReturnType<typeof open>>;
  const events: ToolCallEvent[] = [];
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(() => opened.close());

  const generations = source === 'in this thread' ? GENERATIONS : GENERATIONS.slice(0, 1);
  describe.each(generations)('MCP $name over streamable HTTP', ({ serve, connect }) => {
    let server: TestServer;
    /** A client that signs nothing, for all tests that send a bundle of their own: to connect takes several requests. */
    let plain: ToolCaller;
    let runs = 0;
    const clients: ToolCaller[] = [];
    const connected = async (connection?: Connection) => {
      const client = await connect(server.url, connection);
      clients.push(client);
      return client;
    };
    beforeAll(async () => {
      const drs = drsMcp({
        ...opened.source,
        ...OPEN,
        replayStore: createMemoryReplayStore(),
        onToolCall: (event) => events.push(event),
      });
      server = await serve(drs, ({ query }) => {
        runs++;
        return `${query} for ${drsContext().root_principal}`;
      });
      plain = await connected();
    });
    beforeEach(() => {
      runs = 0;
      events.length = 0;
    });
    afterAll(async () => {
      for (const client of clients) await client.close();
      await server.close();
    });

    it('executes a call that the agent signed, with its context, and says so once', async () => {
      const signer = await delegation();
      const client = await connected({ delegation: signer });
      const result = await client.callTool({ name: 'search', arguments: { query: 'tea', n: undefined } });
      expect(result.content[0]?.text).toMatch(/^tea for did:key:z6Mk/);
      expect(events).toEqual([
        {
          event: 'drs:tool-call',
          root_principal: expect.stringContaining('did:key:z') as string,
          chain_depth: 1,
          command: '/mcp/tools/call',
          tool: 'search',
          policy_result: 'pass',
          cost_usd: 0,
          inv_jti: expect.stringMatching(/^inv:/) as string,
          agent: signer.key.did,
          at: expect.stringMatching(/^20.*Z$/) as string,
          outcome: 'ok',
        },
      ]);
    });

    it('does not even send a call that the delegation does not allow', async () => {
      const client = await connected({ delegation: await delegation() });
      await expect(client.callTool({ name: 'fetch', arguments: {} })).rejects.toThrow(IssueError);
      await expect(client.callTool({ name: 'search', arguments: { tool: 'fetch' } })).rejects.toThrow(
        'named "tool"',
      );
    });

    it.each([KEY, 'xyz.okeyamy.drs/bundle'])('finds the bundle in _meta under %s', async (key) => {
      const result = await plain.callTool(call(search, liveCall(chain, search), key));
      expect(result.content[0]?.text).toBe(`tea for ${principal}`);
    });

    it('finds the bundle in the header', async () => {
      const client = await connected({ headers: { [KEY]: encode(liveCall(chain, search)) } });
      const result = await client.callTool(call(search, undefined));
      expect(result.content[0]?.text).toBe(`tea for ${principal}`);
    });

    it.each(ATTACKS)('refuses %s', async (_name, params, status, data) => {
      await expect(plain.callTool({ ...params() })).rejects.toMatchObject({
        code: -32010,
        message: expect.stringContaining(`DRS: ${data.code}`) as string,
        data: { ...data, status },
      });
      expect(runs).toBe(0);
      expect(events).toEqual([]);
    });

    it('refuses a replay', async () => {
      const params = call(search, liveCall(chain, search));
      await plain.callTool(params);
      await expect((await connected()).callTool(params)).rejects.toMatchObject({
        code: -32010,
        data: invalid('REPLAY_DETECTED'),
      });
      expect(runs).toBe(1);
    });

    it('refuses a bundle in the header beside another one in _meta', async () => {
      const client = await connected({ headers: { [KEY]: encode(liveCall(chain, search)) } });
      const params = call(search, liveCall(chain, search));
      await expect(client.callTool(params)).rejects.toMatchObject({
        code: -32010,
        data: { code: 'MULTIPLE_BUNDLES', status: 400 },
      });
      expect(runs).toBe(0);
    });

    it('executes no call of a batch', async () => {
      const one = (id: number) => ({
        jsonrpc: '2.0',
        id,
        method: 'tools/call',
        params: call(search, liveCall(chain, search)),
      });
      const response = await fetch(server.url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
        body: JSON.stringify([one(1), one(2), { jsonrpc: '2.0', id: 3, method: 'ping' }]),
      });
      const answers = (await response.text())
        .split('\n')
        .filter((line) => line.startsWith('data: {'))
        .map((line) => JSON.parse(line.slice(6)) as { id: number });
      const refused = { error: { code: -32010, data: { code: 'BATCH_NOT_SUPPORTED', status: 400 } } };
      expect(answers.toSorted((a, b) => a.id - b.id)).toMatchObject([
        { id: 1, ...refused },
        { id: 2, ...refused },
        { id: 3, result: {} },
      ]);
      expect(runs).toBe(0);
    });

    it('answers each of many clients with its own result', async () => {
      const callers = await Promise.all(
        Array.from({ length: 6 }, async () => connected({ delegation: await delegation() })),
      );
      const texts = await Promise.all(
        callers.map(async (client, at) => {
          const { content } = await client.callTool({ name: 'search', arguments: { query: `q${at}` } });
          return content[0]?.text.split(' ')[0];
        }),
      );
      expect(texts).toEqual(['q0', 'q1', 'q2', 'q3', 'q4', 'q5']);
    });
  });
});
