import { readJson } from './message.js';
import type { JsonValue } from '../../protocol/json.js';

/** Whether a path is that of an A2A agent card, of 0.3 or 1.0. */
export function isCardPath(path: string): boolean {
  return /\/\.well-known\/agent(?:-card)?\.json$/.test(path);
}

/**
 * An agent card whose addresses lead to the port that signs: clients of A2A call the address in the card, whichever
 * address the card came from. The members named `url` with the agent's origin are changed, no others.
 *
 * @param origin of the agent
 * @param here the origin of the port
 */
export function cardFor(card: string, origin: string, here: string): string {
  const value = readJson(card);
  if (value === undefined) return card;
  return JSON.stringify(value, (name, member: JsonValue) => {
    if (name !== 'url' || typeof member !== 'string' || !URL.canParse(member)) return member;
    const url = new URL(member);
    return url.origin === origin
      ? `${here}${member.slice(member.indexOf(url.host) + url.host.length)}`
      : member;
  });
}
