import { toJcs } from '../../src/protocol/jcs.js';
import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../../src/protocol/json.js';
import type { Reading } from '../../src/protocol/options.js';

/** What a gate asks, as it answers on `/approve/<handle>/statement`. */
export interface Question {
  readonly state: 'asked' | 'approved' | 'denied';
  /** Until when, in Unix seconds. */
  readonly ends: number;
  /** How many persons must say yes, and who has. */
  readonly needed: number;
  readonly said: readonly string[];
  /** Whose passkeys can say yes on this page. */
  readonly approvers: readonly { readonly name: string; readonly id: string }[];
  /** What the operator calls the principal. */
  readonly root_name: string | null;
  /** The text whose digest a passkey signs. */
  readonly statement: string;
  /** The claims of each receipt, root first. */
  readonly receipts: readonly JsonObject[];
}

/** One that is shown only to whoever can answer it. */
export interface PrivateQuestion extends Pick<Question, 'approvers'> {
  readonly private: true;
}

/** What is approved. See docs/spec/approval.md. */
export interface Statement {
  readonly tool_server: string;
  readonly root: string;
  readonly agent: string;
  readonly command: string;
  readonly args: JsonObject;
  readonly leaf: string;
  readonly requested_at: number;
}

/** In the order of canonical JSON. */
const MEMBERS = {
  ...{ agent: 'string', args: 'object', command: 'string', handle: 'string', leaf: 'string' },
  ...{ requested_at: 'number', root: 'string', tool_server: 'string', v: 'number' },
};

/**
 * Reads what is approved out of the text itself, so that the page shows what is signed: all of it, and nothing else.
 *
 * @param handle that of the page's address
 */
export function readStatement({ statement, receipts }: Question, handle: string): Reading<Statement> {
  const value = typeof statement === 'string' ? parseStrictJson(statement).value : undefined;
  if (!isJsonObject(value) || toJcs(value) !== statement) return { problem: 'it is no canonical JSON' };
  if (Object.keys(value).join() !== Object.keys(MEMBERS).join())
    return { problem: 'it has members that this page does not know, or lacks some' };
  const odd = Object.entries(MEMBERS).find(([name, type]) => typeof value[name] !== type);
  if (odd !== undefined || value['v'] !== 1 || !isJsonObject(value['args']))
    return { problem: 'a member is not what it should be' };
  if (value['handle'] !== handle) return { problem: 'it is that of another question' };
  if (receipts[0]?.['iss'] !== value['root'] || receipts.at(-1)?.['aud'] !== value['agent'])
    return { problem: 'it is not about these receipts' };
  return { value: value as unknown as Statement };
}

/** How much of a text, or of a list, is shown at first. */
export const MAX_SHOWN = { characters: 400, items: 20 };

/**
 * Walks through all texts of a value, also names.
 *
 * @param onText gets each text
 * @param onFold is called for each part that is folded at first
 */
export function walk(value: JsonValue, onText: (text: string) => void, onFold: () => void): void {
  if (typeof value === 'string') {
    onText(value);
    if (value.length > MAX_SHOWN.characters) onFold();
  } else if (typeof value === 'object' && value !== null) {
    const items = Object.entries(value);
    if (items.length > MAX_SHOWN.items) onFold();
    for (const [name, item] of items) {
      if (!Array.isArray(value)) onText(name);
      walk(item, onText, onFold);
    }
  }
}
