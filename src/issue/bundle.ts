import { readBundle, type Bundle } from '../protocol/bundle.js';
import { isJsonObject } from '../protocol/json.js';
import { IssueError } from './issue-error.js';

/**
 * Reads the value of an `X-DRS-Bundle` header, and checks its shape alone: a verifier decides the rest. Drops unknown members.
 *
 * @param header strict base64url (RFC 4648 §5), with or without padding
 * @throws IssueError `INVALID_BASE64URL`; `INVALID_JSON` (also if a member name occurs twice); `MALFORMED_BUNDLE`
 * @example const { receipts, invocation } = decodeBundle(request.headers['x-drs-bundle']);
 */
export function decodeBundle(header: string): Bundle {
  const read = readBundle(header);
  if (read.defect !== undefined)
    throw new IssueError(read.defect.code, read.defect.message, read.defect.suggestion);
  const { value } = read;
  const { bundle_version, invocation, receipts } = isJsonObject(value) ? value : {};
  const isList = Array.isArray(receipts) && receipts.every((receipt) => typeof receipt === 'string');
  if (typeof bundle_version === 'string' && typeof invocation === 'string' && isList)
    return { bundle_version, invocation, receipts };
  throw new IssueError(
    'MALFORMED_BUNDLE',
    'the bundle is no object of bundle_version (string), invocation (string) and receipts (array of strings)',
    'build the bundle with createBundle()',
  );
}
