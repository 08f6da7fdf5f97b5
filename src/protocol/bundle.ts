import { decodeBase64url, decodeUtf8, encodeBase64url, encodeUtf8 } from '#platform';
import { DRS_VERSION } from './claims.js';
import { parseStrictJson, type JsonValue } from './json.js';

/** The receipts of a chain with the invocation of one call under it. */
export interface Bundle {
  readonly bundle_version: string;
  /** Compact JWT. */
  readonly invocation: string;
  /** Compact JWTs, root first. */
  readonly receipts: readonly string[];
}

/** Why a text is not an encoded bundle. */
export interface BundleDefect {
  readonly code: 'INVALID_BASE64URL' | 'INVALID_JSON';
  readonly message: string;
  readonly suggestion: string;
}

/** What was read of an encoded bundle, or why it is none. */
type Read<T> = (T & { readonly defect?: never }) | { readonly defect: BundleDefect };

/**
 * Puts a chain and an invocation together. Nothing is checked here: `issueInvocation` has checked both.
 *
 * @example const bundle = createBundle({ receipts: [root, sub], invocation });
 */
export function createBundle({ receipts, invocation }: Omit<Bundle, 'bundle_version'>): Bundle {
  return { bundle_version: DRS_VERSION, invocation, receipts: [...receipts] };
}

/**
 * The value of the `X-DRS-Bundle` request header: the JSON text of a bundle's three members, as unpadded base64url.
 *
 * @example await fetch(url, { method: 'POST', headers: { 'X-DRS-Bundle': encodeBundle(bundle) }, body });
 */
export function encodeBundle({ bundle_version, invocation, receipts }: Bundle): string {
  return encodeBase64url(encodeUtf8(JSON.stringify({ bundle_version, invocation, receipts })));
}

/**
 * The JSON text of an encoded bundle, not yet parsed.
 *
 * @param encoded strict base64url (RFC 4648 §5), with or without padding
 * @example readBundleText('e30').text; // '{}'
 */
export function readBundleText(encoded: string): Read<{ readonly text: string }> {
  // Padding must fill up the last group of four. A whole group has none.
  const unpadded = encoded.length % 4 > 0 ? encoded : encoded.replace(/={1,2}$/, '');
  const bytes = decodeBase64url(unpadded);
  if (bytes === null || unpadded === '') {
    const found = encoded === '' ? 'nothing' : `${encoded.length} characters that are not`;
    const message = `the header is not strict base64url: expected only A-Z a-z 0-9 - _, and = at the end, found ${found}`;
    const suggestion = 'send the value of encodeBundle() unaltered, in one header';
    return { defect: { code: 'INVALID_BASE64URL', message, suggestion } };
  }
  const text = decodeUtf8(bytes);
  return text === null ? { defect: notJson('not UTF-8') } : { text };
}

/**
 * Decodes a bundle and parses it strictly. The result is any JSON value: the verifier checks whether it is a valid bundle.
 *
 * @param encoded as for {@link readBundleText}
 * @example readBundle('e30').value; // {}
 */
export function readBundle(encoded: string): Read<{ readonly value: JsonValue }> {
  const read = readBundleText(encoded);
  if (read.defect !== undefined) return read;
  const { value, defect } = parseStrictJson(read.text);
  return defect === undefined ? { value } : { defect: notJson(`not strict JSON: ${defect.message}`) };
}

function notJson(found: string): BundleDefect {
  const message = `the bundle in the header is ${found}`;
  return { code: 'INVALID_JSON', message, suggestion: 'encode the bundle with encodeBundle()' };
}
