import { Buffer } from 'node:buffer';
import { chmodSync, lstatSync, rmSync, type Stats } from 'node:fs';
import { connect } from 'node:net';

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

/**
 * Removes the file of a Unix socket on which nobody listens: a process that is killed leaves its file behind.
 *
 * @throws Error if somebody listens, or if the file is not a socket
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = statOf(path);
  if (found === null) return;
  if (!found.isSocket())
    throw new Error(
      `cannot listen on unix:${path}: there is a file that is not a socket; choose another path, or remove it`,
    );
  const fault = await faultOfConnecting(path);
  if (fault === null)
    throw new Error(
      `cannot listen on unix:${path}: another process listens there; stop it, or choose another path`,
    );
  if (fault !== 'ECONNREFUSED' && fault !== 'ENOENT')
    throw new Error(
      `cannot listen on unix:${path}: cannot tell whether somebody listens there (${fault}); if not, remove the file`,
    );
  rmSync(path, { force: true });
}

/** Creates the file of a socket with permissions for its owner only, and then sets the wanted permissions. */
export function withSocketMode<T>(path: string, mode: number, bind: () => T): T {
  const before = process.umask(0o177);
  let bound: T;
  try {
    bound = bind();
  } finally {
    process.umask(before);
  }
  if (statOf(path)?.isSocket() === true) chmodSync(path, mode);
  return bound;
}

/** The file of a socket, to be removed at the end. If another process has replaced it meanwhile, it stays. */
export class SocketFile {
  readonly #path: string;
  readonly #bound: Stats | null;

  constructor(path: string) {
    this.#path = path;
    this.#bound = statOf(path);
  }

  remove(): void {
    const now = statOf(this.#path);
    if (now !== null && now.ino === this.#bound?.ino && now.dev === this.#bound.dev)
      rmSync(this.#path, { force: true });
  }
}

function statOf(path: string): Stats | null {
  return lstatSync(path, { throwIfNoEntry: false }) ?? null;
}

/** The code of the error; `null` if somebody accepts the connection. */
function faultOfConnecting(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    socket.once('connect', () => {
      socket.destroy();
      resolve(null);
    });
    socket.once('error', ({ code = 'unknown' }: NodeJS.ErrnoException) => resolve(code));
  });
}
