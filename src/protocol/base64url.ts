/**
 * Decodes strict base64url: the RFC 4648 §5 alphabet, no padding, no white space, unused trailing bits zero.
 *
 * `Buffer.from(text, 'base64url')` checks none of this. A text is strict exactly when encoding its decoded bytes
 * gives the same text again, so that is the check.
 *
 * @returns the bytes, or `null` where the text is not strict base64url
 * @see RFC 7515 §2, RFC 4648 §5
 * @example decodeBase64url('aGk'); // <Buffer 68 69>
 * @example decodeBase64url('aGl'); // null: a trailing bit is set
 */
export function decodeBase64url(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}

/**
 * Encodes bytes as unpadded base64url.
 *
 * @see RFC 4648 §5
 * @example encodeBase64url(Buffer.from('hi')); // 'aGk'
 */
export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
}
