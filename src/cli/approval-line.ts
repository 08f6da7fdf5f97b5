import { Buffer } from 'node:buffer';
import { decodeBase64url } from '#platform';
import { challengeOf, statementOf, type Call } from '../approval/statement.js';
import { checkAssertion, type Assertion } from '../approval/webauthn.js';
import { equalsByJcs, isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import type { Reading } from '../protocol/options.js';
import { isCount } from '../protocol/policy.js';
import type { EntryApproval } from '../verify/approval.js';
import { show } from '../verify/codes.js';

/** What a line of a decision log says of a yes. Only what the passkey has signed is proved. */
export interface YesLine {
  readonly handle: string;
  readonly requestedAt: number;
  /** `null` where the log is kept without arguments. */
  readonly statement: string | null;
  /** Of the statement, in base64url. */
  readonly digest: string;
  readonly approver: { readonly name: string; readonly id: string };
  readonly assertion: Assertion;
  readonly counter: number;
}

const SIGNED = ['client_data_json', 'authenticator_data', 'signature'];

/** @returns `null` if it is no such line */
export function readYesLine(text: string): YesLine | null {
  const { value } = parseStrictJson(text);
  const approval = isJsonObject(value) ? value['approval'] : undefined;
  if (!isJsonObject(approval)) return null;
  const { handle, requested_at: requestedAt, digest, statement = null, approver, counter } = approval;
  const { name, id } = isJsonObject(approver) ? approver : {};
  const texts = [handle, digest, name, id, statement ?? ''];
  const isRead = texts.every((one) => typeof one === 'string') && isCount(requestedAt) && isCount(counter);
  const [clientDataJSON, authenticatorData, signature] = SIGNED.map((member) => {
    const encoded = approval[member];
    const bytes = typeof encoded === 'string' ? decodeBase64url(encoded) : null;
    return bytes && Buffer.from(bytes);
  });
  if (!isRead || !clientDataJSON || !authenticatorData || !signature) return null;
  const assertion = { clientDataJSON, authenticatorData, signature };
  return { handle, requestedAt, digest, statement, approver: { name, id }, assertion, counter } as YesLine;
}

/**
 * Says whether a line proves a yes to exactly this call.
 *
 * @param entry what the operator says of approvers in the line of the call's root principal; `null`: there are none
 * @returns who said yes, or why it proves none
 */
export function checkYesLine(line: YesLine, call: Call, entry: EntryApproval | null): Reading<string> {
  const { handle, requestedAt, statement, digest, approver: said, assertion, counter } = line;
  const expected = statementOf(call, requestedAt, handle);
  if (expected === null) return { problem: 'the call is larger than a statement can be (64 KiB)' };
  const text = Buffer.from(expected).toString();
  if (statement !== null && statement !== text) return { problem: differenceOf(statement, text) };
  const approver = entry?.approvers.find(({ id }) => id === said.id);
  if (approver === undefined)
    return {
      problem: `no approver in the line of ${call.root} has the passkey ${show(said.id)}, which is that of ${show(said.name)} in the log`,
    };
  const challenge = challengeOf(expected);
  const checked = checkAssertion(assertion, approver, challenge);
  if ('problem' in checked) return checked;
  const unsigned = [
    ['approver', said.name, approver.name],
    ['counter', counter, checked.value],
    ['digest', digest, Buffer.from(challenge).toString('base64url')],
  ] as const;
  const wrong = unsigned.find(([, found, right]) => found !== right);
  if (wrong === undefined) return { value: approver.name };
  return { problem: `${wrong[0]} in the log is ${show(wrong[1])}, expected ${show(wrong[2])}` };
}

/** The first member in which a statement is not that of a call. */
function differenceOf(statement: string, expected: string): string {
  const { value: said } = parseStrictJson(statement);
  if (!isJsonObject(said)) return 'the statement is no object in strict JSON';
  const call = JSON.parse(expected) as JsonObject;
  for (const name of new Set([...Object.keys(call), ...Object.keys(said)])) {
    const [found, right] = [said, call].map((one) => (Object.hasOwn(one, name) ? one[name] : undefined));
    if (found === undefined || right === undefined || !equalsByJcs(found, right))
      return `${name} of the statement is ${show(found)}, expected ${show(right)}`;
  }
  return 'the statement is not written in canonical JSON';
}
