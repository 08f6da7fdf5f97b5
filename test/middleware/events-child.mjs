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
const context = /** @type {Parameters<typeof publishToolCall>[0]} */ ({ tool: 'search' });
publishToolCall(context, {}, 'ok', {});
console.log('the call goes on');
