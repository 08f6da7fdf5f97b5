import { findValueDefect, isJsonObject, type JsonValue } from '../protocol/json.js';
import type { VerifyOptions } from '../verifier/call-options.js';
import type { Verdict } from '../verifier/verdict.js';

/**
 * Makes the URL of a service's endpoint.
 *
 * @param address the address of the service, which may have a path; query and fragment are dropped
 * @throws TypeError if it is no http or https URL without credentials. The message leaves it out: it may hold a password
 * @example serviceUrl('http://127.0.0.1:8080/drs/', '/verify').href; // 'http://127.0.0.1:8080/drs/verify'
 */
export function serviceUrl(address: string | URL, path: `/${string}`): URL {
  const url = URL.canParse(String(address)) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new TypeError(
      'the address of the verification service is not an http or https URL without credentials; ' +
        'give one such as http://127.0.0.1:8080',
    );
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

/**
 * Makes the request. `bodyText` is inserted unchanged, so that the service sees what parsing would hide. A body is unusable,
 * and not sent, if it is not JSON, such as an infinity, or nests too deep to be written.
 */
export function writeRequest(bundle: unknown, { body, bodyText }: Pick<VerifyOptions, 'body' | 'bodyText'>) {
  const own = Object.hasOwn(bundle ?? {}, 'body');
  if (!isJsonObject(bundle) || (!own && bodyText === undefined && body === undefined)) {
    // Of a function or a symbol, `JSON.stringify` makes nothing at all.
    const json = (JSON.stringify(bundle) as string | undefined) ?? 'null';
    return { json, hadBody: own, isBodyUnusable: false };
  }
  const value = body === undefined ? bundle['body'] : body;
  try {
    if (bodyText !== undefined) {
      const json = spliceBody(JSON.stringify({ ...bundle, body: undefined }), bodyText);
      return { json, hadBody: true, isBodyUnusable: false };
    }
    if (findValueDefect(value) !== 'not JSON')
      return { json: JSON.stringify({ ...bundle, body: value }), hadBody: true, isBodyUnusable: false };
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
  }
  return { json: JSON.stringify({ ...bundle, body: undefined }), hadBody: false, isBodyUnusable: true };
}

const BINDINGS: ReadonlySet<unknown> = new Set(['match', 'mismatch', 'invalid_body']);

/**
 * Reads the answer of `/verify` (docs/spec/verdict.md). Of a valid verdict, it checks what others than the caller read: its
 * context, its binding, and the name and labels of its root.
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
  const { valid, context, details = {}, error, binding } = value;
  let isVerdict = false;
  if (valid === true && isJsonObject(context) && isJsonObject(details)) {
    const { root_name = '', labels = {} } = details;
    isVerdict =
      (hadBody ? BINDINGS.has(binding) : binding === undefined) &&
      typeof context['root_principal'] === 'string' &&
      Number.isSafeInteger(context['chain_depth']) &&
      isJsonObject(context['leaf_policy']) &&
      [root_name, ...(isJsonObject(labels) ? Object.values(labels) : [null])].every(isText);
  } else if (valid === false && isJsonObject(error)) {
    // Unknown codes are accepted: a newer service may have codes that this version does not know.
    isVerdict = [error['code'], error['message'], error['suggestion']].every(isText);
  }
  return isVerdict ? (value as unknown as Verdict) : null;
}

const isText = (value: unknown) => typeof value === 'string';
