import { decodeBase64url, encodeBase64url } from '../protocol/base64url.js';
import { DRS_VERSION } from '../protocol/claims.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import { IssueError } from './issue-error.js';

/** The receipts of a chain with the invocation of one call under it. Service document 2.1, without `body`. */
export interface Bundle {
  readonly bundle_version: string;
  /** Compact JWT. */
  readonly invocation: string;
  /** Compact JWTs, root first. */
  readonly receipts: readonly string[];
}

/**
 * Puts a chain and an invocation together. Nothing is checked here: {@link issueInvocation} has checked both.
 *
 * @example const bundle = createBundle({ receipts: [root, sub], invocation });
 */
export function createBundle({ receipts, invocation }: Omit<Bundle, 'bundle_version'>): Bundle {
  return { bundle_version: DRS_VERSION, invocation, receipts: [...receipts] };
}

/**
 * The value of the `X-DRS-Bundle` request header: the bundle's JSON text as unpadded base64url. Only the three
 * members of a bundle go in.
 *
 * @example await fetch(url, { method: 'POST', headers: { 'X-DRS-Bundle': encodeBundle(bundle) }, body });
 */
export function encodeBundle({ bundle_version, invocation, receipts }: Bundle): string {
  return encodeBase64url(Buffer.from(JSON.stringify({ bundle_version, invocation, receipts }), 'utf8'));
}

/**
 * Reads the value of an `X-DRS-Bundle` header. Whether the bundle is valid is for a verifier to say; here only its
 * shape is checked, and unknown members are dropped.
 *
 * @param header strict base64url (RFC 4648 §5), with or without padding
 * @throws IssueError `INVALID_BASE64URL`; `INVALID_JSON` (also where a member name occurs twice); `MALFORMED_BUNDLE`
 * @example const { receipts, invocation } = decodeBundle(request.headers['x-drs-bundle']);
 */
export function decodeBundle(header: string): Bundle {
  const { value, defect } = parseStrictJson(decodeBundleText(header));
  if (defect) {
    throw new IssueError(
      'INVALID_JSON',
      `the bundle in the header is not strict JSON: ${defect.message}`,
      'encode the bundle with encodeBundle()',
    );
  }
  if (!isJsonObject(value)) throw malformed('the bundle is not a JSON object');
  const { bundle_version, invocation, receipts } = value;
  if (typeof bundle_version !== 'string') throw malformed('bundle_version is not a string');
  if (typeof invocation !== 'string') throw malformed('invocation is not a string');
  if (!Array.isArray(receipts) || !receipts.every((receipt) => typeof receipt === 'string')) {
    throw malformed('receipts is not an array of strings');
  }
  return { bundle_version, invocation, receipts };
}

/**
 * The JSON text in an `X-DRS-Bundle` header, as it was encoded and not yet parsed.
 *
 * @param header strict base64url (RFC 4648 §5), with or without padding
 * @throws IssueError `INVALID_BASE64URL`; `INVALID_JSON` where the bytes are not UTF-8
 */
export function decodeBundleText(header: string): string {
  // Padding is either right or an error: it fills the last group of four, and there is none to fill a whole one.
  const unpadded = header.length % 4 === 0 ? header.replace(/={1,2}$/, '') : header;
  const bytes = decodeBase64url(unpadded);
  if (bytes === null || unpadded === '') {
    throw new IssueError(
      'INVALID_BASE64URL',
      `the header is not strict base64url: expected only A-Z a-z 0-9 - _, and = at the end, found ${header === '' ? 'nothing' : `${header.length} characters that are not`}`,
      'send the value of encodeBundle() unaltered, in one header',
    );
  }
  const text = decodeUtf8(bytes);
  if (text !== null) return text;
  throw new IssueError(
    'INVALID_JSON',
    'the bundle in the header is not UTF-8',
    'encode the bundle with encodeBundle()',
  );
}

function malformed(found: string): IssueError {
  return new IssueError(
    'MALFORMED_BUNDLE',
    `${found}: expected bundle_version (string), invocation (string) and receipts (array of strings)`,
    'build the bundle with createBundle()',
  );
}
