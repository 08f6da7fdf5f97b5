import { Buffer } from 'node:buffer';
import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { ServerSide } from '../../../src/service/guard/server-side.js';

const HELD = 1000;

it.each([
  ['it ends', (server: ServerSide) => server.take(Buffer.from('\n')), HELD],
  ['the server ends', (server: ServerSide) => server.end(), 0],
])(
  'answers wait within a line of the server, and the client after 1,000 of them, until %s',
  async (_, ends, written) => {
    const client = new PassThrough({ highWaterMark: 2 ** 20 });
    const server = new ServerSide(client, 4, {});
    await server.take(Buffer.from('a long line'));
    for (let sent = 1; sent < HELD; sent++) await server.answer('{}');
    let goesOn = false;
    const last = server.answer('{}').then(() => (goesOn = true));
    await new Promise(setImmediate);
    expect([goesOn, String(client.read())]).toEqual([false, 'a long line']);
    await ends(server);
    await last;
    // In some versions of Node each read gives one piece.
    let rest = '';
    for (let piece = client.read() as Buffer | null; piece !== null; piece = client.read() as Buffer | null)
      rest += String(piece);
    expect(rest).toBe(written === 0 ? '' : `\n${'{}\n'.repeat(written)}`);
  },
);
