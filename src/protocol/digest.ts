import { hash } from 'node:crypto';

/**
 * The digest by which receipts refer to one another: `sha256:` and 64 lowercase hex digits of SHA-256 over the ASCII
 * bytes of the whole compact JWT.
 *
 * @example digestOf('eyJ….eyJ….c2ln'); // 'sha256:3f0a…'
 */
export function digestOf(jwt: string): string {
  return `sha256:${hash('sha256', jwt, 'hex')}`;
}
