// Runs in a process of its own: Node reports a subscriber that throws as an uncaught exception.
import { subscribe } from 'node:diagnostics_channel';
import { publishToolCall } from '../../dist/middleware/events.js';

subscribe('drs:tool-call', () => {
  throw new Error('from a subscriber');
});
subscribe('drs:tool-call', (event) =>
  console.log('second subscriber:', /** @type {{ tool: string }} */ (event).tool),
);
process.on('uncaughtException', ({ message }) => console.log('uncaught:', message));
publishToolCall(
  {
    event: 'drs:tool-call',
    root_principal: 'did:key:z6Mk',
    chain_depth: 1,
    command: '/tools',
    tool: 'search',
    policy_result: 'pass',
    cost_usd: 0,
    inv_jti: 'inv:1',
    agent: 'did:key:z6Mm',
    at: '2027-01-15T08:00:00.000Z',
    outcome: 'ok',
  },
  {},
);
console.log('the call goes on');
