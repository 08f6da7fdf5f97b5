import { readBundle, type Bundle } from '../protocol/bundle.js';
import { isJsonObject } from '../protocol/json.js';
import { IssueError } from './issue-error.js';

/**
 * Reads the value of an `X-DRS-Bundle` header. Checks only the shape of the bundle; a verifier decides whether it is
 * valid. Unknown members are dropped.
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
  if (!isJsonObject(value)) throw malformed('the bundle is not a JSON object');
  const { bundle_version, invocation, receipts } = value;
  if (typeof bundle_version !== 'string') throw malformed('bundle_version is not a string');
  if (typeof invocation !== 'string') throw malformed('invocation is not a string');
  if (!Array.isArray(receipts) || !receipts.every((receipt) => typeof receipt === 'string'))
    throw malformed('receipts is not an array of strings');
  return { bundle_version, invocation, receipts };
}

function malformed(found: string): IssueError {
  return new IssueError(
    'MALFORMED_BUNDLE',
    `${found}: expected bundle_version (string), invocation (string) and receipts (array of strings)`,
    'build the bundle with createBundle()',
  );
}
