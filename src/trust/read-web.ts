import { documentUrlOf } from '../protocol/did-web.js';
import type { JsonValue } from '../protocol/json.js';
import type { Root } from '../verify/parts.js';

/** What an entry says of where things are fetched. See docs/spec/trust.md for each member. */
export interface WebMembers {
  /** `false`: nobody is trusted, the entry only says how the `did:web` of a delegate is resolved. */
  readonly root?: boolean;
  /** Seconds after which its document is fetched again, and for which it may be used. */
  readonly key_fresh_secs?: number;
  readonly key_stale_secs?: number;
  /** Addresses and networks of its servers that are not public. */
  readonly addresses?: readonly string[];
}

export const WEB_MEMBERS = ['root', 'key_fresh_secs', 'key_stale_secs', 'addresses'] as const;
/** The members of an entry that trusts nobody. */
const OF_NO_ROOT = ['did', 'name', ...WEB_MEMBERS];

const FRESH_SECS = 300;
const STALE_SECS = 86_400;
const MAX_ADDRESSES = 16;

/** Reads these members of an entry, and says what is wrong with them. */
export function readWeb(
  entry: Readonly<Record<string, JsonValue>>,
  wrong: (expected: string, ...at: readonly string[]) => void,
): Pick<Root, 'isRoot' | 'web' | 'addresses'> {
  const own = (member: string, absent?: JsonValue) => (Object.hasOwn(entry, member) ? entry[member] : absent);
  const did = own('did');
  const url = typeof did === 'string' ? documentUrlOf(did) : null;
  const isRoot = own('root', true);
  if (typeof isRoot !== 'boolean' || (!isRoot && url === null)) wrong('true, or false of a did:web', 'root');
  const other = isRoot === false && Object.keys(entry).find((member) => !OF_NO_ROOT.includes(member));
  if (typeof other === 'string') wrong('no such member beside "root": false', other);
  const seconds = (member: 'key_fresh_secs' | 'key_stale_secs', min: number, max: number) => {
    const value = own(member, max);
    const isRight = Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
    if (!isRight || (own(member) !== undefined && url === null))
      wrong(`whole seconds of a did:web, ${min} to ${max}`, member);
    return Number(value);
  };
  const freshSecs = seconds('key_fresh_secs', 1, FRESH_SECS);
  const staleSecs = seconds('key_stale_secs', freshSecs, STALE_SECS);
  const addresses = own('addresses', []);
  const isList = Array.isArray(addresses) && addresses.length <= MAX_ADDRESSES && addresses.every(isNetwork);
  if (!isList) wrong(`at most ${MAX_ADDRESSES} addresses, or networks such as "10.0.0.0/8"`, 'addresses');
  return {
    isRoot: isRoot === true,
    web: url && { url, freshMs: freshSecs * 1000, staleMs: staleSecs * 1000 },
    addresses: isList ? (addresses as readonly string[]) : [],
  };
}

/** Whether a value is an address, or a network such as `10.0.0.0/8`. */
export function isNetwork(value: JsonValue): boolean {
  if (typeof value !== 'string') return false;
  const [address = '', bits, ...others] = value.split('/');
  const isIPv4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/.test(address);
  const isIPv6 =
    address.includes(':') && /^[0-9a-f:.]+$/.test(address) && URL.canParse(`http://[${address}]/`);
  const isLength =
    bits === undefined || (/^(?:0|[1-9]\d{0,2})$/.test(bits) && Number(bits) <= (isIPv4 ? 32 : 128));
  return (isIPv4 || isIPv6) && isLength && others.length === 0;
}
