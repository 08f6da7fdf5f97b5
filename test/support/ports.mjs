// Ports for programs that must be given a number. The tests, the benchmarks and the scripts all take them from here;
// plain JavaScript, so that scripts can import it without a build.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const BLOCK_PORTS = 32;
// fetch refuses some ports up to 10080.
const MIN_PORT = 10_240;
const MAX_PORT = 65_535;
// Where the ephemeral range is not known, it begins at 49152 (macOS, Windows) or at 32768 (Linux).
const USUAL_FIRST_EPHEMERAL = 32_768;
const MAX_STARTS = 8;

/**
 * The first and the last port that may be handed out, as `/proc/sys/net/ipv4/ip_local_port_range` describes the
 * ephemeral range: below it, since the kernel may at any time give a port within it to an outgoing connection. Above it
 * if it begins too low; with neither, the usual ports, of which any may be taken.
 *
 * @param {string} range the text of that file; empty if there is none
 * @returns {readonly [first: number, last: number]}
 */
export function portsOutside(range) {
  const [, low, high] = /^(\d+)\s+(\d+)\s*$/.exec(range) ?? [];
  if (low === undefined || high === undefined) return [MIN_PORT, USUAL_FIRST_EPHEMERAL - 1];
  const below = /** @type {const} */ ([MIN_PORT, Number(low) - 1]);
  const above = /** @type {const} */ ([Math.max(MIN_PORT, Number(high) + 1), MAX_PORT]);
  const found = [below, above].find(([first, last]) => last - first + 1 >= 64 * BLOCK_PORTS);
  return found ?? [MIN_PORT, USUAL_FIRST_EPHEMERAL - 1];
}

/** The next port of this process' block, and the end of the block; equal if it has none left. */
let next = 0;
let end = 0;
/** The last request for a port: they are served one after the other. @type {Promise<unknown>} */
let last = Promise.resolve();

/**
 * A port that nothing listens on, for the caller alone: no other test, script or run on this machine gets it while this
 * process runs, and no outgoing connection. A program may still listen on it that took it by itself: use
 * {@link startOnPort} to start a program.
 *
 * @returns {Promise<number>}
 */
export function unusedPort() {
  const port = last.then(takePort);
  last = port.catch(() => undefined);
  return port;
}

async function takePort() {
  for (;;) {
    while (next < end) {
      const port = next++;
      if (await isFree(port)) return port;
    }
    next = (await takeBlock()) + 1;
    end = next + BLOCK_PORTS - 1;
  }
}

/**
 * Takes a block of ports for this process. Whoever listens on the first port of a block has the block: the kernel gives
 * it to only one process at a time, and takes it back when that process ends, however it ends.
 */
async function takeBlock() {
  const [first, final] = portsOutside(textOf('/proc/sys/net/ipv4/ip_local_port_range'));
  const blocks = Math.floor((final - first + 1) / BLOCK_PORTS);
  for (let tries = 0; tries < blocks; tries++) {
    // Processes that start at the same time have different numbers, so they look in different places.
    const guard = first + ((process.pid + tries) % blocks) * BLOCK_PORTS;
    const server = await listenOn(guard);
    if (server === null) continue;
    server.unref();
    return guard;
  }
  throw new Error(
    `all ${blocks} blocks of ports from ${first} to ${final} are in use; end the test runs that were left behind`,
  );
}

/**
 * Starts a program that must be given a port. If it fails, and by then something else listens on that port, it is
 * started again on another one. `start` must end what it started before it rejects.
 *
 * @template T
 * @param {(port: number) => Promise<T>} start resolves when the program listens
 * @returns {Promise<T>}
 */
export async function startOnPort(start) {
  for (let starts = 1; ; starts++) {
    const port = await unusedPort();
    try {
      return await start(port);
    } catch (error) {
      if (starts === MAX_STARTS || (await isFree(port))) throw error;
    }
  }
}

/** @param {number} port */
async function isFree(port) {
  const server = await listenOn(port);
  if (server === null) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/** @param {number} port @returns the server, or `null` if it cannot listen there */
async function listenOn(port) {
  const server = createServer();
  try {
    await once(server.listen({ port, host: '127.0.0.1', exclusive: true }), 'listening');
    return server;
  } catch (error) {
    // Some systems refuse a port that they keep for themselves with EACCES.
    if (['EADDRINUSE', 'EACCES'].includes(/** @type {NodeJS.ErrnoException} */ (error).code ?? ''))
      return null;
    throw error;
  }
}

/** @param {string} file */
function textOf(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
