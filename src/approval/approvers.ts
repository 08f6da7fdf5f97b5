import { decodeBase64url } from '#platform';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { isCount, isMoney, MAX_POLICY_LIST } from '../protocol/policy.js';
import { MAX_USD } from '../protocol/money.js';
import type { Approver, EntryApproval, PasskeyKey } from '../verify/approval.js';

/** The members of an entry that say which calls need a person's yes, and whose. See docs/spec/approval.md. */
export interface ApprovalMembers {
  /** Calls that need one: of these tools (`*` for any), and those that cost more. Either is enough. */
  readonly approve?: { readonly tools?: readonly string[]; readonly above_usd?: number };
  readonly approvers?: readonly Approver[];
  /** How many persons must say yes; default 1. */
  readonly needed?: number;
  /** Whether the page asks for a passkey before it shows a call; default `false`. */
  readonly private?: boolean;
}

export const APPROVAL_MEMBERS = ['approve', 'approvers', 'needed', 'private'] as const;

const MAX_APPROVERS = 16;
const APPROVE = ['tools', 'above_usd'];
const APPROVER = ['name', 'id', 'key', 'origin'];

/** What is wrong, and where below the entry. */
type Wrong = (found: unknown, expected: string, ...at: (string | number)[]) => void;

/**
 * Reads these members, without native code: a page reads them, too.
 *
 * @param isName whether a value can be a name, as that of the entry
 * @returns `null` if there are none of them
 */
export function readApproval(
  entry: JsonObject,
  isName: (value: unknown) => boolean,
  wrong: Wrong,
): EntryApproval | null {
  if (!APPROVAL_MEMBERS.some((member) => Object.hasOwn(entry, member))) return null;
  const [approve, approvers, needed, isPrivate = false] = APPROVAL_MEMBERS.map((member) =>
    Object.hasOwn(entry, member) ? entry[member] : undefined,
  );
  const asked = approve === undefined ? {} : readApprove(approve, wrong);
  const people = approvers === undefined ? [] : readApprovers(approvers, isName, wrong);
  const persons = new Set(people.map(({ name }) => name)).size;
  if (needed !== undefined && !(isCount(needed) && needed >= 1 && needed <= persons))
    wrong(needed, `a number of persons from 1 to ${persons}, the names in approvers`, 'needed');
  if (typeof isPrivate !== 'boolean') wrong(isPrivate, 'true or false', 'private');
  return {
    tools: null,
    aboveUsd: null,
    ...asked,
    approvers: people,
    needed: (needed ?? 1) as number,
    isPrivate: isPrivate === true,
  };
}

function readApprove(approve: JsonValue, wrong: Wrong): Partial<EntryApproval> {
  const names = isJsonObject(approve) ? Object.keys(approve) : [];
  if (!isJsonObject(approve) || names.length === 0 || names.some((name) => !APPROVE.includes(name))) {
    wrong(approve, 'an object with tools, above_usd or both, and nothing else', 'approve');
    return {};
  }
  const [tools, aboveUsd] = APPROVE.map((name) => (Object.hasOwn(approve, name) ? approve[name] : undefined));
  const isList = Array.isArray(tools) && tools.length > 0 && tools.length <= MAX_POLICY_LIST;
  if (names.includes('tools') && !(isList && tools.every((tool) => typeof tool === 'string')))
    wrong(tools, `an array of 1 to ${MAX_POLICY_LIST} names of tools`, 'approve', 'tools');
  if (names.includes('above_usd') && !isMoney(aboveUsd))
    wrong(aboveUsd, `a number from 0 to ${MAX_USD}`, 'approve', 'above_usd');
  return {
    ...(tools !== undefined && { tools: tools as string[] }),
    ...(aboveUsd !== undefined && { aboveUsd: aboveUsd as number }),
  };
}

function readApprovers(given: JsonValue, isName: (value: unknown) => boolean, wrong: Wrong): Approver[] {
  if (!Array.isArray(given) || given.length === 0 || given.length > MAX_APPROVERS) {
    wrong(given, `an array of 1 to ${MAX_APPROVERS} approvers`, 'approvers');
    return [];
  }
  const ids = new Set<unknown>();
  return given.flatMap((one, at) => {
    if (!isJsonObject(one) || Object.keys(one).sort().join() !== [...APPROVER].sort().join()) {
      wrong(one, `an object with ${APPROVER.join(', ')}, and nothing else`, 'approvers', at);
      return [];
    }
    const { name, id, origin } = one;
    const key = readKey(one['key']);
    if (!isName(name))
      wrong(name, 'the name of a person, a text like the name of an entry', 'approvers', at, 'name');
    const length = bytesOf(id)?.length ?? 0;
    if (length < 16 || length > 1023)
      wrong(id, 'the id of a passkey, 16 to 1,023 bytes in base64url', 'approvers', at, 'id');
    else if (ids.has(id)) wrong(id, 'an id that no other approver here has', 'approvers', at, 'id');
    ids.add(id);
    if (key === null)
      wrong(
        one['key'],
        'the public JWK of a passkey: Ed25519, P-256, or RSA of 2,048 to 4,096 bits',
        'approvers',
        at,
        'key',
      );
    if (!isOrigin(origin))
      wrong(
        origin,
        'an origin as browsers write it: https: and a domain, or http://localhost',
        'approvers',
        at,
        'origin',
      );
    return key === null ? [] : [{ name, id, key, origin } as Approver];
  });
}

function bytesOf(text: unknown): Uint8Array | null {
  return typeof text === 'string' ? decodeBase64url(text) : null;
}

/** A key without anything private, and without members that nobody reads. */
function readKey(key: JsonValue | undefined): PasskeyKey | null {
  if (!isJsonObject(key)) return null;
  const { kty, crv, x, y, n, e } = key;
  const names = Object.keys(key).sort().join();
  const [atX, atY] = [bytesOf(x), bytesOf(y)];
  if (names === 'crv,kty,x' && kty === 'OKP' && crv === 'Ed25519')
    return atX?.length === 32 ? { kty, crv, x: x as string } : null;
  if (names === 'crv,kty,x,y' && kty === 'EC' && crv === 'P-256')
    return isOnCurve(atX, atY) ? { kty, crv, x: x as string, y: y as string } : null;
  if (names !== 'e,kty,n' || kty !== 'RSA' || e !== 'AQAB') return null;
  const modulus = numberOf(bytesOf(n) ?? new Uint8Array());
  const bits = modulus.toString(2).length;
  // Even: no product of two primes.
  return bits >= 2048 && bits <= 4096 && modulus % 2n === 1n ? { kty, n: n as string, e } : null;
}

function numberOf(bytes: Uint8Array): bigint {
  return bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);
}

// NIST SP 800-186 §3.2.1.3
const P = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffffn;
const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;

function isOnCurve(x: Uint8Array | null, y: Uint8Array | null): boolean {
  if (x?.length !== 32 || y?.length !== 32) return false;
  const [atX, atY] = [numberOf(x), numberOf(y)];
  return atX < P && atY < P && (atY * atY - (atX * atX * atX - 3n * atX + B)) % P === 0n;
}

/** Whether passkeys work on pages of this origin. */
export function isOrigin(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  const { origin, protocol, hostname } = new URL(value);
  if (origin !== value) return false;
  if (protocol === 'http:') return hostname === 'localhost';
  // A passkey belongs to a domain, never to an address.
  return protocol === 'https:' && !/^\[|^\d+(\.\d+){3}$/.test(hostname);
}
