import { isJsonObject, type JsonValue } from '../protocol/json.js';
import { isDid } from '../protocol/key-resolver.js';
import { isLoopback } from '../protocol/loopback.js';
import { isCount } from '../protocol/policy.js';
import type { RootList, RootLists } from '../verify/parts.js';

/** A status list as a row has it. See docs/spec/revocation.md, "Lists of a root". */
export interface NamedList {
  /** Where it is. */
  readonly uri: string;
  /** A W3C Bitstring Status List, or a Token Status List of the IETF. */
  readonly form: 'w3c' | 'token';
  /** Its name, if that is not the `uri`. */
  readonly id?: string;
  /** The `did:key`, or `did:web` with a row, that must have signed it; by default the `did` of the row. */
  readonly issuer?: string;
  /** Seconds for which a copy is used after its time to live. */
  readonly max_stale?: number;
}

/** The `did:key` of a P-256 key, by which status lists alone may be signed; without a look at the point that it names. */
export const P256_DID = /^did:key:zDn[1-9A-HJ-NP-Za-km-z]{46}$/;

const MEMBERS = ['uri', 'form', 'id', 'issuer', 'max_stale'];
// Members beyond these are not looked at: no valid list has so many.
const MAX_MEMBERS = 10;
const MAX_LISTS = 16;
const MAX_LENGTH = 2_000;
const MAX_STALE_SECS = 31_536_000;
const URI = `an https URL of at most ${MAX_LENGTH} characters, or an http one of this machine, without user, password and fragment`;
const NAME = `a text of 1 to ${MAX_LENGTH} printable ASCII characters without spaces, in one list of the row only`;

/**
 * Reads the lists of a row; `null` if it has none.
 *
 * @param row what else it says
 * @param wrong is told what is wrong, and where that is in the row
 */
export function readStatusLists(
  value: JsonValue | undefined,
  row: { did: string; name: string | null; addresses: readonly string[] },
  wrong: (found: unknown, expected: string, ...at: (string | number)[]) => void,
): RootLists | null {
  if (value === undefined) return null;
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_LISTS) {
    wrong(value, `an array of 1 to ${MAX_LISTS} lists`, 'status_lists');
    return null;
  }
  const names = new Set<string>();
  const isNewName = (found: unknown): found is string => isName(found) && !names.has(found);
  return value.map((list, at): RootList => {
    const given = isJsonObject(list) ? list : null;
    if (given === null) wrong(list, 'an object with uri and form', 'status_lists', at);
    for (const member of Object.keys(given ?? {}).slice(0, MAX_MEMBERS))
      if (!MEMBERS.includes(member))
        wrong(given?.[member], `no such member, but ${MEMBERS.join(', ')}`, 'status_lists', at, member);
    const read = <T>(member: string, expected: string, test: (found: unknown) => found is T, absent?: T) => {
      const found: unknown = given !== null && Object.hasOwn(given, member) ? given[member] : absent;
      if (given !== null && !test(found)) wrong(found, expected, 'status_lists', at, member);
      return found as T;
    };
    const url = read('uri', URI, isListUrl);
    const form = read('form', '"w3c" or "token"', isForm);
    const name = read('id', NAME, isNewName, url);
    const issuer = read('issuer', 'a did:key of an Ed25519 or P-256 key, or a did:web', isIssuer, row.did);
    const maxStaleSecs = read('max_stale', `0 to ${MAX_STALE_SECS} (seconds)`, isStale, 0);
    names.add(name);
    const { addresses } = row;
    const key = JSON.stringify([url, form, name, issuer, maxStaleSecs, addresses]);
    return { form, name, url, issuer, maxStaleSecs, addresses, owner: row.name ?? row.did, key };
  });
}

const isForm = (found: unknown): found is RootList['form'] => found === 'w3c' || found === 'token';
const isStale = (found: unknown): found is number => isCount(found) && found <= MAX_STALE_SECS;
const isName = (found: unknown): found is string =>
  typeof found === 'string' && found.length <= MAX_LENGTH && /^[!-~]+$/.test(found);

function isListUrl(found: unknown): found is string {
  if (!isName(found) || !/^https?:\/\/[^#]+$/.test(found) || !URL.canParse(found)) return false;
  const { protocol, hostname, username, password } = new URL(found);
  return username + password === '' && (protocol === 'https:' || isLoopback(hostname));
}

function isIssuer(found: unknown): found is string {
  return isName(found) && (isDid(found) || P256_DID.test(found));
}
