import { Role } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client';
import { signA2aRequests } from 'drs-verify/a2a';
import { randomUUID } from 'node:crypto';
import { demoDelegation } from './delegation.js';

const url = process.argv[2] ?? 'http://127.0.0.1:3000';
const request = () => ({
  tenant: '',
  configuration: undefined,
  metadata: undefined,
  message: {
    messageId: randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [
      {
        content: { $case: /** @type {const} */ ('text'), value: 'How is the weather?' },
        metadata: undefined,
        filename: '',
        mediaType: '',
      },
    ],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  },
});

const fetchImpl = signA2aRequests(await demoDelegation());
const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] });
const client = await factory.createFromUrl(url);
console.log('signed:', JSON.stringify(await client.sendMessage(request())));

const other = await new ClientFactory({ transports: [new JsonRpcTransportFactory()] }).createFromUrl(url);
await other.sendMessage(request()).catch((error) => console.log('not signed:', error.message));
