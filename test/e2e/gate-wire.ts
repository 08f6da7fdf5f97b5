import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { eventually } from '../support/eventually.js';
import { connectRaw } from '../support/raw-http.js';

/** A request as a proxy writes it, and what the gate has to say. */
export interface WireRequest {
  readonly name: string;
  readonly expected: 'allow' | 'pass' | readonly ['deny', status: number, code: string];
  /** With `{{…}}` in the places of what differs from run to run. */
  readonly text: string;
}

/** What came back, as it was on the wire. */
export interface WireAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** The requests of `test/gate/wire/<name>.http`. */
export function readWire(name: string): WireRequest[] {
  const file = fileURLToPath(new URL(`../gate/wire/${name}.http`, import.meta.url));
  const [, ...parts] = readFileSync(file, 'utf8').split(/^### /m);
  return parts.map((part) => {
    const [title = '', ...lines] = part.split('\n');
    const at = title.lastIndexOf(': ');
    const [decision = '', status = '', code = ''] = title.slice(at + 2).split(' ');
    if (decision !== 'allow' && decision !== 'pass' && decision !== 'deny')
      throw new Error(`${name}.http: "${title}" does not end with allow, pass or deny`);
    return {
      name: title.slice(0, at),
      expected: decision === 'deny' ? ['deny', Number(status), code] : decision,
      text: lines.join('\n').trimEnd(),
    };
  });
}

/** The names of the headers of a recorded request, in lower case. */
export function headerNames({ text }: WireRequest): string[] {
  const [head = ''] = text.split('\n\n');
  return head
    .split('\n')
    .slice(1)
    .map((line) => line.slice(0, line.indexOf(':')).toLowerCase());
}

const inChunks = (body: string) =>
  [body.slice(0, 20), body.slice(20)]
    .map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`)
    .join('') + '0\r\n\r\n';

const BODIES: Record<string, string> = {
  '{{call}}': toolCall(),
  '{{call in chunks}}': inChunks(toolCall()),
  '{{tampered}}': toolCall({ arguments: { query: 'coffee' } }),
  '{{initialize}}': toolCall({}, { method: 'initialize' }),
};

/** Writes a recorded request to a service, on a connection of its own, and reads the answer. */
export async function send(port: number, { text }: WireRequest): Promise<WireAnswer> {
  const [head = '', placeholder = ''] = text.split('\n\n');
  const body = placeholder === '' ? '' : BODIES[placeholder];
  if (body === undefined) throw new Error(`no body is known as ${placeholder}`);
  const bundle = mcpBundle();
  const written = head
    .replaceAll('{{bundle}}', bundle)
    .replaceAll('{{deep bundle}}', () => encode(liveCall(liveChain(16), { tool: 'search', query: 'tea' })))
    .replaceAll('{{length}}', String(Buffer.byteLength(body)))
    .replaceAll('\n', '\r\n');
  if (written.includes('{{')) throw new Error(`something is left open in ${written}`);
  const { socket, until, received } = await connectRaw(port);
  socket.write(`${written}\r\n\r\n${body}`);
  const [answered = ''] = (await until('\r\n\r\n')).split('\r\n\r\n');
  const [first = '', ...lines] = answered.split('\r\n');
  const headers = new Map(
    lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  );
  const start = answered.length + 4;
  const length = Number(headers.get('content-length') ?? 0);
  await eventually(() => {
    if (received().length < start + length) throw new Error(`the body ended early: ${received()}`);
  });
  socket.destroy();
  return { status: Number(first.split(' ')[1]), headers, body: received().slice(start) };
}
