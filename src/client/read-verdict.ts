import { isJsonObject, type JsonValue } from '../protocol/json.js';
import type { Verdict } from '../verifier/verdict.js';

const BINDINGS: ReadonlySet<unknown> = new Set(['match', 'mismatch', 'invalid_body']);

/**
 * Reads the answer of `/verify` (docs/spec/verdict.md).
 *
 * @param hadBody whether a body was sent; a valid verdict must then have a `binding`
 * @returns `null` if it is not a verdict
 */
export function readVerdict(json: string, hadBody: boolean): Verdict | null {
  let value: JsonValue;
  try {
    value = JSON.parse(json) as JsonValue;
  } catch {
    return null;
  }
  if (!isJsonObject(value)) return null;
  const { valid, context, details, error, binding } = value;
  const isBound = hadBody ? BINDINGS.has(binding) : binding === undefined;
  if (valid === true && isContext(context) && isBound && namesRootWell(details)) {
    // The cast is safe: the checks above cover what others than the caller itself read of a valid verdict.
    return value as unknown as Verdict;
  }
  if (valid === false && isJsonObject(error)) {
    const { code, message, suggestion } = error;
    const isError = [code, message, suggestion].every((text) => typeof text === 'string');
    // Unknown codes are accepted: a newer service may have codes that this version does not know.
    return isError ? (value as unknown as Verdict) : null;
  }
  return null;
}

/** Whether details, if there are any, name the root in the right types. */
function namesRootWell(details: JsonValue | undefined): boolean {
  if (details === undefined) return true;
  if (!isJsonObject(details)) return false;
  const { root_name = '', labels = {} } = details;
  return (
    typeof root_name === 'string' &&
    isJsonObject(labels) &&
    Object.values(labels).every((value) => typeof value === 'string')
  );
}

function isContext(value: JsonValue | undefined): boolean {
  return (
    isJsonObject(value) &&
    typeof value['root_principal'] === 'string' &&
    Number.isSafeInteger(value['chain_depth']) &&
    isJsonObject(value['leaf_policy'])
  );
}
