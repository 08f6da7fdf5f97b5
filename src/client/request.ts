import { findValueDefect, isJsonObject, type JsonValue } from '../protocol/json.js';
import type { VerifyOptions } from '../verifier/call-options.js';
import type { Verdict } from '../verifier/verdict.js';

/** A path of the service that commands and clients ask. */
export type ServicePath =
  '/verify' | '/admin/revoke' | '/admin/revocations' | `/admin/usage?receipt=${string}`;

/**
 * Makes the URL of a service's endpoint.
 *
 * @param address the address of the service, which may have a path; query and fragment are dropped
 * @throws TypeError if it is not an http or https URL without credentials. The address is not in the message: it may
 *   hold a password.
 * @example serviceUrl('http://127.0.0.1:8080/drs/', '/verify').href; // 'http://127.0.0.1:8080/drs/verify'
 */
export function serviceUrl(address: string | URL, path: ServicePath): URL {
  const url = URL.canParse(String(address)) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw new TypeError(
      'the address of the verification service is not an http or https URL without credentials; ' +
        'give one such as http://127.0.0.1:8080',
    );
  }
  return new URL(url.pathname.replace(/\/+$/, '') + path, url.origin);
}

/**
 * Puts the text of a request body into a bundle, as its member `body`. The text is not changed: parsing and serializing
 * would round big integers and drop duplicate names, so the service would check another body.
 *
 * @param bundle the JSON text of an object that has no member `body`
 * @param body JSON text. It must be exactly one JSON value, since other text could add members to the bundle
 * @throws SyntaxError if the body is not JSON
 * @example spliceBody('{"invocation":"…"}', '9007199254740993'); // '{"invocation":"…","body":9007199254740993}'
 */
export function spliceBody(bundle: string, body: string): string {
  JSON.parse(body);
  const start = bundle.slice(0, bundle.lastIndexOf('}'));
  const separator = start.trimEnd().endsWith('{') ? '' : ',';
  return `${start}${separator}"body":${body}}`;
}

/** Makes the request. `bodyText` is inserted unchanged, so that the service sees what parsing would hide. */
export function writeRequest(
  bundle: unknown,
  { body, bodyText }: Pick<VerifyOptions, 'body' | 'bodyText'>,
): { json: string; hadBody: boolean; isBodyUnusable: boolean } {
  const own = Object.hasOwn(bundle ?? {}, 'body');
  if (!isJsonObject(bundle)) {
    // Of a function or a symbol, `JSON.stringify` makes nothing at all.
    const json = (JSON.stringify(bundle) as string | undefined) ?? 'null';
    return { json, hadBody: own, isBodyUnusable: false };
  }
  if (!own && bodyText === undefined && body === undefined) {
    return { json: JSON.stringify(bundle), hadBody: false, isBodyUnusable: false };
  }
  const json =
    bodyText === undefined
      ? withValue(bundle, body === undefined ? bundle['body'] : body)
      : withText(bundle, bodyText);
  if (json !== null) return { json, hadBody: true, isBodyUnusable: false };
  return { json: JSON.stringify({ ...bundle, body: undefined }), hadBody: false, isBodyUnusable: true };
}

/** Returns `null` for bodies that JSON cannot express, such as an infinity, and for bodies that nest too deep. */
function withValue(bundle: object, body: unknown): string | null {
  if (findValueDefect(body) === 'not JSON') return null;
  try {
    return JSON.stringify({ ...bundle, body });
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Returns `null` if the text is not JSON. */
function withText(bundle: object, bodyText: string): string | null {
  try {
    return spliceBody(JSON.stringify({ ...bundle, body: undefined }), bodyText);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

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
