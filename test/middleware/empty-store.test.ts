/* oxlint-disable typescript/no-deprecated -- the low-level Server is what handlers are set on */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { InMemoryTransport, Client } from '@modelcontextprotocol/client';
import { Server } from '@modelcontextprotocol/server';
import { afterAll, describe, expect, it } from 'vitest';
import { drsA2a } from '../../src/middleware/a2a/index.js';
import {
  drsContext,
  drsFetch,
  drsMiddleware,
  findDrsContext,
  type DrsContext,
} from '../../src/middleware/index.js';
import { drsMcp } from '../../src/middleware/mcp/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { encode, liveCall, liveChain, OPEN, OPEN_ROUTE } from './call.js';

/** Issue 12 item 10: a call without a bundle, made while a verified call is served, is nobody's. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const chain = liveChain();
const args = { tool: 'search', query: 'tea' };
const info = { name: 'test', version: '1.0.0' };

/** Runs something as the handler of a verified call. */
async function insideVerifiedCall<T>(run: () => T | Promise<T>): Promise<T> {
  let result: T | undefined;
  const outer = drsFetch({ verifier, ...OPEN_ROUTE }, async () => {
    expect(drsContext().root_principal).toBe(chain.parties[0]?.did);
    result = await run();
    return new Response();
  });
  const response = await outer(
    new Request('http://outer.test/', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-DRS-Bundle': encode(liveCall(chain, args)) },
      body: JSON.stringify(args),
    }),
  );
  expect(response.status).toBe(200);
  return result as T;
}

/** Lets a request without a bundle through node middleware, in this very call stack, as in-process dispatchers do. */
const throughNode = (middleware: ReturnType<typeof drsMiddleware>) =>
  new Promise<DrsContext | null>((resolve, reject) => {
    const req = new IncomingMessage(new Socket());
    req.method = 'GET';
    // Over A2A, only the agent card passes.
    req.url = '/.well-known/agent-card.json';
    req.push(null);
    middleware(req, new ServerResponse(req), (error) => {
      if (error === undefined) resolve(findDrsContext());
      else reject(new Error('the middleware failed', { cause: error }));
    });
  });

/** Calls a tool, or lists them, over an in-memory transport. */
async function throughMcp(ask: (client: Client) => Promise<unknown>): Promise<DrsContext | null | undefined> {
  let found: DrsContext | null | undefined;
  const server = new Server(info, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/call', () => {
    found = findDrsContext();
    return { content: [] };
  });
  server.setRequestHandler('tools/list', () => {
    found = findDrsContext();
    return { tools: [] };
  });
  const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
  await drsMcp({ verifier, ...OPEN, optional: true })
    .protectServer(server)
    .connect(serverSide);
  const client = new Client(info);
  await client.connect(clientSide);
  await ask(client);
  await client.close();
  return found;
}

describe('an unverified call inside the handler of a verified one finds no context', () => {
  it('in a fetch handler', async () => {
    const inner = drsFetch({ verifier, ...OPEN_ROUTE, optional: true }, () =>
      Response.json({ found: findDrsContext() }),
    );
    const answer = await insideVerifiedCall(() => inner(new Request('http://inner.test/')));
    expect(await answer.json()).toEqual({ found: null });
  });

  it('in a node handler', async () => {
    expect(
      await insideVerifiedCall(() => throughNode(drsMiddleware({ verifier, ...OPEN_ROUTE, optional: true }))),
    ).toBeNull();
  });

  it('in an A2A handler', async () => {
    expect(
      await insideVerifiedCall(() => throughNode(drsA2a({ verifier, ...OPEN, optional: true }))),
    ).toBeNull();
  });

  it('in a tool, over an in-memory transport', async () => {
    expect(
      await insideVerifiedCall(() => throughMcp((client) => client.callTool({ name: 'search' }))),
    ).toBeNull();
  });

  it('in an MCP handler of a method that is not protected', async () => {
    expect(await insideVerifiedCall(() => throughMcp((client) => client.listTools()))).toBeNull();
  });
});
