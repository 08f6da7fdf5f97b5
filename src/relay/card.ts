import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { unzip } from 'node:zlib';
import { targetOf } from '../gate/a2a-rest.js';
import { readAtMost } from '../middleware/read-at-most.js';
import type { JsonValue } from '../protocol/json.js';
import type { OwnAnswer } from './http-relay.js';
import type { Destination } from './http-target.js';
import { readBytes } from './message.js';

const maxOutputLength = 1024 * 1024;

/**
 * Whether the answer may be an agent card: that to any GET that is no call, since clients look for a card wherever they are told.
 *
 * @param rpcMethod of a message
 */
export function mayBeCard(method: string, path: string, rpcMethod: string | undefined): boolean {
  const target = targetOf(method, path);
  const called = target.kind === 'rest' ? target.method : rpcMethod;
  return called === undefined ? method === 'GET' : /card$/i.test(called);
}

/**
 * An agent card whose addresses lead to the port that signs: clients call the address in the card, whichever address the card
 * came from. A card with one that cannot be replaced is refused.
 *
 * @param here the origin of the port
 * @param allowed addresses that stay
 * @returns `null` for the answer as it is
 */
export async function cardFor(
  answer: IncomingMessage,
  { url, pathFor }: Destination,
  here: string,
  allowed: readonly string[],
): Promise<OwnAnswer | null> {
  const { statusCode: status = 0, headers } = answer;
  const foreign: string[] = [];
  // By whatever name of its host: an agent may not know by which one it is reached.
  const lead = (text: string): string => {
    const { protocol, pathname, search } = new URL(URL.canParse(text, url.href) ? text : 'none:', url);
    if (/^https?:$/.test(protocol) && pathFor('GET', pathname + search) !== null)
      return here + pathname + search;
    if (!allowed.includes(text)) foreign.push(text);
    return text;
  };
  const leadAll = (value: JsonValue): JsonValue => {
    if (Array.isArray(value)) return value.map(leadAll);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).map(([name, member]) => {
      // That of the company, which nobody calls.
      if (name === 'provider') return [name, member] as const;
      const isAddress = name.toLowerCase() === 'url' && typeof member === 'string';
      return [name, isAddress ? lead(member) : leadAll(member)] as const;
    });
    return Object.fromEntries(members);
  };
  let own: OwnAnswer | null = null;
  if (status >= 300 && headers.location !== undefined)
    own = { status, body: '', headers: { location: lead(headers.location) } };
  else if (status >= 200 && status < 300) {
    const read = Buffer.from((await readAtMost(answer, maxOutputLength)) ?? '{');
    const isCoded = !['', 'identity'].includes(headers['content-encoding'] ?? '');
    const bytes = isCoded ? await promisify(unzip)(read, { maxOutputLength }) : read;
    const value = readBytes(bytes.subarray(bytes.indexOf('\ufeff') === 0 ? 3 : 0));
    if (value === undefined && /^\W*\{/.test(bytes.toString('latin1')))
      throw new Error('the agent card is no JSON, or too large');
    const changed = value === undefined ? value : leadAll(value);
    // A signature is of what the agent has written.
    const unsigned = (name: string, member: unknown) => (name === 'signatures' ? undefined : member);
    const isSame = JSON.stringify(changed) === JSON.stringify(value);
    own = { status, body: isSame ? bytes : JSON.stringify(changed, unsigned) };
  }
  if (foreign.length === 0) return own;
  const error = `the agent card names ${JSON.stringify(foreign[0])}, where calls would not be signed: below --to there is no such path; --allow-address lets it stay`;
  return { status: 502, body: JSON.stringify({ error }) };
}
