import { Role } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import { createVerifier } from 'drs-verify';
import {
  BUNDLE_HEADER_ROOM,
  createMemoryReplayStore,
  drsA2a,
  drsContext,
  drsExtension,
  drsUserBuilder,
} from 'drs-verify/a2a';
import express from 'express';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

const serverIdentity = 'https://weather.example';
const app = express();
const server = createServer({ maxHeaderSize: BUNDLE_HEADER_ROOM }, app);
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
await once(server, 'listening');
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
const url = `http://127.0.0.1:${port}`;

/** @type {import('@a2a-js/sdk/server').AgentExecutor} */
const executor = {
  execute: ({ contextId }, bus) => {
    const text = `sunny, for ${drsContext().root_principal}`;
    bus.publish(AgentEvent.message({ ...message(text), contextId }));
    return Promise.resolve();
  },
  cancelTask: () => Promise.resolve(),
};
const requestHandler = new DefaultRequestHandler(agentCard(), new InMemoryTaskStore(), executor);

const drs = drsA2a({
  verifier: createVerifier(),
  // With 'any', anyone can be a principal: then check root_principal in the agent.
  trustedRoots: process.env['TRUSTED_ROOTS']?.split(',') ?? 'any',
  serverIdentity,
  replayStore: createMemoryReplayStore(),
  eventSink: process.stderr,
});
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/a2a', drs, jsonRpcHandler({ requestHandler, userBuilder: drsUserBuilder }));
app.use('/rest', drs, restHandler({ requestHandler, userBuilder: drsUserBuilder }));
console.log(`listening on ${url}`);

/** @param {string} text */
function message(text) {
  return {
    messageId: randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_AGENT,
    parts: [
      {
        content: { $case: /** @type {const} */ ('text'), value: text },
        metadata: undefined,
        filename: '',
        mediaType: '',
      },
    ],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

/** @returns {import('@a2a-js/sdk').AgentCard} */
function agentCard() {
  return {
    name: 'Weather agent',
    description: 'Tells the weather to agents that may ask',
    version: '1.0.0',
    supportedInterfaces: [
      { url: `${url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
      { url: `${url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0', tenant: '' },
    ],
    provider: undefined,
    // Tells clients that they need a delegation.
    capabilities: { extensions: [drsExtension({ serverIdentity })] },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ['text'],
    defaultOutputModes: ['text'],
    skills: [],
    signatures: [],
  };
}
