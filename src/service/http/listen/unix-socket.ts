import { once } from 'node:events';
import { chmodSync, lstatSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { showAddress, type FrontEnd } from '../front-end.js';

/**
 * Has a front end listen on a Unix socket, also where a process that was killed has left the file of one.
 *
 * @param mode permissions of the file, such as 0o660
 * @returns what removes the file at the end, unless another process has replaced it
 * @throws Error if somebody listens there, the file is not a socket, or it cannot be made
 */
export async function listenOnUnix(frontEnd: FrontEnd, path: string, mode: number) {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined) {
    const reason = found.isSocket()
      ? await reasonToKeep(path)
      : 'there is a file that is not a socket; choose another path, or remove it';
    if (reason !== null) throw new Error(`cannot listen on ${showAddress(path)}: ${reason}`);
    // uWebSockets.js would do that itself, also where somebody listens.
    rmSync(path, { force: true });
  }
  const umask = process.umask(0o177);
  // Both front ends have made the file when this returns: for its owner only, until it has its mode.
  const listening = frontEnd.listen(path);
  process.umask(umask);
  await listening;
  chmodSync(path, mode);
  const { ino, dev } = lstatSync(path);
  return {
    close: () => {
      const last = lstatSync(path, { throwIfNoEntry: false });
      if (last?.ino === ino && last.dev === dev) rmSync(path, { force: true });
    },
  };
}

/** Why a socket must stay; `null` if nobody listens on it. */
async function reasonToKeep(path: string): Promise<string | null> {
  const socket = connect({ path });
  try {
    await once(socket, 'connect');
    return 'another process listens there; stop it, or choose another path';
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return null;
    return `cannot tell whether somebody listens there (${code}); if not, remove the file`;
  } finally {
    socket.destroy();
  }
}
