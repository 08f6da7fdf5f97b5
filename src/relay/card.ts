import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { unzip } from 'node:zlib';
import { readAtMost } from '../protocol/read-at-most.js';
import type { JsonValue } from '../protocol/json.js';
import type { OwnAnswer } from './http-relay.js';
import type { Destination } from './http-target.js';
import { readJson } from './message.js';

const MAX_CARD_BYTES = 1024 * 1024;

/**
 * An agent card, or a redirect, whose addresses lead to the port that signs: clients call the address in the card, whichever
 * address the card came from. One that cannot be replaced, nor may stay, is refused.
 *
 * @param isCard whether it may be one
 * @param here the origin of the port
 * @returns `null` for the answer as it is
 */
export async function cardFor(
  answer: IncomingMessage,
  isCard: boolean,
  { url, pathFor }: Destination,
  here: string,
  allowed: readonly string[],
): Promise<OwnAnswer | null> {
  const { statusCode: status = 0, headers } = answer;
  const { location } = headers;
  const foreign: string[] = [];
  // By its path alone: an agent may not know by which name of a host it is reached.
  const lead = (text: string): string => {
    const { protocol, pathname, search } = new URL(URL.canParse(text, url.href) ? text : 'none:', url);
    if (/^https?:$/.test(protocol) && pathFor('GET', pathname + search) !== null)
      return here + pathname + search;
    if (!allowed.includes(text)) foreign.push(text);
    return text;
  };
  const leadAll = (value: JsonValue, name: string): JsonValue => {
    if (typeof value === 'string') return name.toLowerCase() === 'url' ? lead(value) : value;
    // The provider is the company behind the agent: its address is for people.
    if (typeof value !== 'object' || value === null || name === 'provider') return value;
    if (Array.isArray(value)) return value.map((one) => leadAll(one, name));
    return Object.fromEntries(Object.entries(value).map(([each, member]) => [each, leadAll(member, each)]));
  };
  let own: OwnAnswer | null = null;
  if (status >= 300 && location !== undefined)
    own = { status, body: '', headers: { location: lead(location) } };
  else if (isCard && status >= 200 && status < 300) {
    const read = Buffer.from((await readAtMost(answer, MAX_CARD_BYTES)) ?? '{');
    const isPlain = ['', 'identity'].includes(headers['content-encoding'] ?? '');
    const bytes = isPlain ? read : await promisify(unzip)(read, { maxOutputLength: MAX_CARD_BYTES });
    // Without a byte order mark.
    const text = new TextDecoder().decode(bytes);
    const value = readJson(text);
    if (value === undefined && /^\s*\{/.test(text)) throw new Error('the card is no JSON, or too large');
    const led = value === undefined ? value : leadAll(value, '');
    const isSame = JSON.stringify(led) === JSON.stringify(value);
    // A signature is of what the agent has written.
    const unsigned = (name: string, member: unknown) => (name === 'signatures' ? undefined : member);
    own = { status, body: isSame ? bytes : JSON.stringify(led, unsigned) };
  }
  if (foreign.length === 0) return own;
  const error = `the agent names ${JSON.stringify(foreign[0])}, where calls would not be signed: below --to there is no such path; --allow-address lets it stay`;
  return { status: 502, body: JSON.stringify({ error }) };
}
