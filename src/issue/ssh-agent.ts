/// <reference types="node" preserve="true" />
/**
 * Signing with Ed25519 keys that an `ssh-agent` holds. Needs Node's sockets.
 *
 * @example
 * import { sshAgentSigner } from 'drs-verify/ssh-agent';
 *
 * @packageDocumentation
 */
import { connect } from 'node:net';
import { didKeyOf } from '../protocol/did-key.js';
import { text, type GivenOptions, type Table } from '../protocol/options.js';
import { invalidKey } from './issue-error.js';
import { issueOptions } from './options.js';
import type { Signer } from './signer.js';

// The messages: draft-ietf-sshm-ssh-agent; their formats: RFC 4251 §5 and RFC 8709.

const OPTIONS = {
  /** The DID or the comment of the key; default: the only Ed25519 key of the agent. */
  key: { kind: text('a DID or a comment') },
  /** The path of the agent's socket; default: the environment variable `SSH_AUTH_SOCK`. */
  socket: { kind: text('a path', () => true) },
} satisfies Table;

/** Options of {@link sshAgentSigner}. */
export interface SshAgentOptions extends GivenOptions<typeof OPTIONS> {}

const KEY_TYPE = 'ssh-ed25519';
/** Maximum size of a message in bytes, as in OpenSSH. */
const MAX_MESSAGE_BYTES = 256 * 1024;
const LENGTH_BYTES = 4;
const MAX_SHOWN = 8;
const FAILURE = 5;
const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;

/** The agent may ask the person for each signature (`ssh-add -c`). */
const TIMEOUT_MS = 120_000;

/**
 * A {@link Signer} over a key in an `ssh-agent`. Whoever reaches its socket, also a forwarded one, can sign; `ssh-add -c` makes it ask.
 *
 * @throws IssueError `INVALID_OPTION`; `INVALID_KEY` if there is no agent, or none or several of its keys are meant
 * @example const root = await issueRootDelegation({ ...delegation, key: await sshAgentSigner({ key: 'alice@example.org' }) });
 */
export async function sshAgentSigner(options: SshAgentOptions = {}): Promise<Signer> {
  const { key, socket } = issueOptions(options, OPTIONS);
  const path = socket ?? process.env['SSH_AUTH_SOCK'] ?? '';
  if (path === '')
    throw invalidKey(
      'there is no ssh-agent: SSH_AUTH_SOCK is not set',
      'start one with `eval "$(ssh-agent)"` and add a key with `ssh-add`',
    );
  const all = await ask(path, Uint8Array.of(REQUEST_IDENTITIES), IDENTITIES_ANSWER, readIdentities);
  const meant = all.filter(({ did, comment }) => key === undefined || key === did || key === comment);
  const [found] = meant;
  // An agent can list a key twice, under two comments.
  if (found === undefined || meant.some(({ did }) => did !== found.did)) {
    const wanted = key === undefined ? 'one Ed25519 key' : `the key ${JSON.stringify(key.slice(0, 100))}`;
    const keys = found === undefined ? all : meant;
    const shown = keys.slice(0, MAX_SHOWN).map(({ did, comment }) => `${did} (${comment.slice(0, 100)})`);
    throw invalidKey(
      `expected ${wanted} in the ssh-agent, found ${shown.join(', ') || 'none'}`,
      'add one with `ssh-add`, or choose one by its DID, or by a comment that only one of them has',
    );
  }
  const { did, publicKey } = found;
  const blob = Buffer.concat([stringOf(KEY_TYPE), stringOf(publicKey)]);
  return {
    did,
    sign: async (bytes) => {
      const request = [Uint8Array.of(SIGN_REQUEST), stringOf(blob), stringOf(bytes), Buffer.alloc(4)];
      // The signature is behind its type. Whoever signs verifies it.
      return ask(path, Buffer.concat(request), SIGN_RESPONSE, (answer) => {
        const [, signature = Buffer.alloc(0)] = stringsIn(stringsIn(answer)[0] ?? answer);
        return signature;
      });
    },
  };
}

/**
 * Asks an agent one thing, on a connection of its own.
 *
 * @param expected the number of the answer
 * @param read reads the answer after its number, and throws if it is malformed
 */
async function ask<T>(path: string, message: Uint8Array, expected: number, read: (answer: Buffer) => T) {
  const socket = connect(path);
  try {
    if (message.length > MAX_MESSAGE_BYTES)
      throw new Error(`it takes at most ${MAX_MESSAGE_BYTES} bytes, and this is ${message.length}`);
    const tooLate = new Error(`it did not answer within ${TIMEOUT_MS / 1000} s`);
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(tooLate));
    socket.write(stringOf(message));
    let bytes = Buffer.alloc(0);
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      bytes = Buffer.concat([bytes, chunk]);
      const length = bytes.length < LENGTH_BYTES ? Infinity : bytes.readUInt32BE(0);
      if (length === 0 || (length > MAX_MESSAGE_BYTES && length < Infinity))
        throw new Error(`its answer has ${length} bytes, expected 1 to ${MAX_MESSAGE_BYTES}`);
      if (bytes.length < LENGTH_BYTES + length) continue;
      if (bytes.length > LENGTH_BYTES + length) throw new Error('its answer is longer than it says');
      const kind = bytes[LENGTH_BYTES];
      if (kind === expected) return read(bytes.subarray(LENGTH_BYTES + 1));
      throw new Error(
        kind === FAILURE ? 'it refused' : `its answer has the number ${kind}, expected ${expected}`,
      );
    }
    throw new Error('it closed the connection');
  } catch (error) {
    throw invalidKey(
      `the ssh-agent at ${path} does not sign: ${(error as Error).message}`,
      'check that this agent (SSH_AUTH_SOCK, or --agent-socket) runs and is not locked (`ssh-add -l`), and that you confirmed',
    );
  } finally {
    socket.destroy();
  }
}

/** A text, or bytes, as a `string` of RFC 4251: its length in four bytes, then the bytes. Messages have the same form. */
function stringOf(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function stringsIn(bytes: Buffer): Buffer[] {
  const strings: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const start = at + LENGTH_BYTES;
    at = start <= bytes.length ? start + bytes.readUInt32BE(at) : Infinity;
    if (at > bytes.length) throw new Error('its answer ends too early');
    strings.push(bytes.subarray(start, at));
  }
  return strings;
}

/** The Ed25519 keys in the answer to a request for identities; others are left out. A comment is often an address or a file. */
function readIdentities(answer: Buffer) {
  const count = answer.length < LENGTH_BYTES ? 0 : answer.readUInt32BE(0);
  const fields = stringsIn(answer.subarray(LENGTH_BYTES));
  if (fields.length !== 2 * count)
    throw new Error(`its answer has ${fields.length} fields, expected two for each of ${count} keys`);
  const found: { readonly did: string; readonly publicKey: Buffer; readonly comment: string }[] = [];
  for (let at = 0; at < fields.length; at += 2) {
    const [kind, publicKey = Buffer.alloc(0)] = stringsIn(fields[at] as Buffer);
    if (kind?.toString('latin1') !== KEY_TYPE) continue;
    found.push({ did: didKeyOf(publicKey), publicKey, comment: String(fields[at + 1]) });
  }
  return found;
}
