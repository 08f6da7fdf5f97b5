import { Buffer } from 'node:buffer';

/** Where a front end listens. */
export type ListenAddress =
  /**
   * `port` 0 takes a free one. With `isShared`, other processes of the same user can listen on the port too. The kernel
   * then distributes new connections among them.
   */
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly isShared: boolean }
  /** A Unix socket; `mode` are the permissions of its file, such as 0o660. */
  | { readonly kind: 'unix'; readonly path: string; readonly mode: number };

const UNIX = 'unix:';
// `sun_path` of Linux has 108 bytes with a zero at the end. uSockets would write a longer path beyond its buffer.
const MAX_PATH_BYTES = 107;

/**
 * Reads the path of a Unix socket from a text such as `unix:/run/drs/verify.sock`.
 *
 * @returns `problem` says what is wrong with the text
 */
export function unixPathOf(text: string): { readonly path: string } | { readonly problem: string } {
  const path = text.startsWith(UNIX) ? text.slice(UNIX.length) : '';
  if (!path.startsWith('/') || path.endsWith('/') || path.includes('\0'))
    return { problem: 'expected unix: and an absolute path, such as unix:/run/drs/verify.sock' };
  const bytes = Buffer.byteLength(path);
  if (bytes <= MAX_PATH_BYTES) return { path };
  return {
    problem: `the path has ${bytes} bytes, expected at most ${MAX_PATH_BYTES}: choose a shorter one`,
  };
}

/** An address as it is printed: `127.0.0.1:8080`, `[::1]:8080`, `unix:/run/drs/verify.sock`. */
export function showAddress(address: ListenAddress): string {
  if (address.kind === 'unix') return UNIX + address.path;
  const { host, port } = address;
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
