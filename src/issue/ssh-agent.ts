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
import { didKeyOf, PUBLIC_KEY_BYTES } from '../protocol/did-key.js';
import { text, type GivenOptions, type Table } from '../protocol/options.js';
import { invalidKey, type IssueError } from './issue-error.js';
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

/** The type of the keys that are used. */
const KEY_TYPE = 'ssh-ed25519';
/** Maximum size of a message in bytes, as in OpenSSH. */
const MAX_MESSAGE_BYTES = 256 * 1024;
const LENGTH_BYTES = 4;
const SIGNATURE_BYTES = 64;
const FAILURE = 5;
const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;

/** The agent may ask the person for each signature (`ssh-add -c`). */
const TIMEOUT_MS = 120_000;

/**
 * A {@link Signer} over a key that an `ssh-agent` holds. Whoever reaches the socket of the agent can sign with its keys, also
 * through a forwarded one; `ssh-add -c` makes the agent ask.
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
  const [found, ...others] = meant;
  if (found === undefined || others.length > 0) throw wrongChoice(key, found === undefined ? all : meant);
  const { did, publicKey } = found;
  const blob = Buffer.concat([stringOf(KEY_TYPE), stringOf(publicKey)]);
  return {
    did,
    sign: async (bytes) => {
      const request = [Uint8Array.of(SIGN_REQUEST), stringOf(blob), stringOf(bytes), Buffer.alloc(4)];
      return ask(path, Buffer.concat(request), SIGN_RESPONSE, readSignature);
    },
  };
}

function wrongChoice(key: string | undefined, keys: readonly Identity[]): IssueError {
  if (keys.length === 0)
    return invalidKey(
      'the ssh-agent has no Ed25519 key',
      'make one with `ssh-keygen -t ed25519` and add it with `ssh-add`',
    );
  const MAX_SHOWN = 8;
  const shown = keys.slice(0, MAX_SHOWN).map(({ did, comment }) => `${did} (${comment.slice(0, 100)})`);
  const list = shown.join(', ') + (keys.length > MAX_SHOWN ? ` and ${keys.length - MAX_SHOWN} more` : '');
  const wanted = key === undefined ? 'one Ed25519 key' : `the key ${JSON.stringify(key.slice(0, 100))}`;
  return invalidKey(
    `expected ${wanted} in the ssh-agent, found ${list}`,
    'choose one by its DID, or by a comment that only one of them has',
  );
}

/**
 * Asks an agent one thing, on a connection of its own.
 *
 * @param expected the number of the answer
 * @param read reads the answer after its number, and throws if it is malformed
 */
function ask<T>(
  path: string,
  message: Uint8Array,
  expected: number,
  read: (answer: Buffer) => T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let length: number | undefined;
    const socket = connect(path);
    const fail = (reason: string) => {
      socket.destroy();
      reject(
        invalidKey(
          `the ssh-agent at ${path} does not sign: ${reason}`,
          'check that this agent (SSH_AUTH_SOCK, or --agent-socket) runs and is not locked (`ssh-add -l`), and that you confirmed',
        ),
      );
    };
    socket.setTimeout(TIMEOUT_MS, () => fail(`it did not answer within ${TIMEOUT_MS / 1000} s`));
    socket.on('error', ({ message: reason }) => fail(reason));
    socket.on('close', () => fail('it closed the connection'));
    socket.on('readable', () => {
      try {
        length ??= (socket.read(LENGTH_BYTES) as Buffer | null)?.readUInt32BE(0);
        if (length === undefined) return;
        if (length === 0 || length > MAX_MESSAGE_BYTES)
          throw new Error(`its answer has ${length} bytes, expected 1 to ${MAX_MESSAGE_BYTES}`);
        const answer = socket.read(length) as Buffer | null;
        if (answer === null) return;
        if (socket.readableLength > 0) throw new Error('its answer is longer than it says');
        const [kind] = answer;
        if (kind !== expected)
          throw new Error(
            kind === FAILURE ? 'it refused' : `its answer has the number ${kind}, expected ${expected}`,
          );
        resolve(read(answer.subarray(1)));
        socket.destroy();
      } catch (error) {
        fail((error as Error).message);
      }
    });
    if (message.length > MAX_MESSAGE_BYTES)
      fail(`it takes at most ${MAX_MESSAGE_BYTES} bytes, and this is ${message.length}`);
    else socket.write(stringOf(message));
  });
}

/** A text, or bytes, as a `string` of RFC 4251: its length in four bytes, then the bytes. Messages have the same form. */
function stringOf(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** The strings of which bytes consist. */
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

/** An Ed25519 key that an agent holds. */
interface Identity {
  readonly did: string;
  readonly publicKey: Buffer;
  /** Often an address, or the name of the key's file. */
  readonly comment: string;
}

/** The Ed25519 keys in the answer to a request for identities; others are left out. */
function readIdentities(answer: Buffer): Identity[] {
  const count = answer.length < LENGTH_BYTES ? 0 : answer.readUInt32BE(0);
  const fields = stringsIn(answer.subarray(LENGTH_BYTES));
  if (fields.length !== 2 * count)
    throw new Error(`its answer has ${fields.length} fields, expected two for each of ${count} keys`);
  const found: Identity[] = [];
  for (let at = 0; at < fields.length; at += 2) {
    const [kind, publicKey] = stringsIn(fields[at] as Buffer);
    if (kind?.toString('latin1') !== KEY_TYPE) continue;
    if (publicKey?.length !== PUBLIC_KEY_BYTES)
      throw new Error(`a key of its answer has ${publicKey?.length} bytes, expected ${PUBLIC_KEY_BYTES}`);
    found.push({ did: didKeyOf(publicKey), publicKey, comment: String(fields[at + 1]) });
  }
  return found;
}

/** The Ed25519 signature in the answer to a request to sign. */
function readSignature(answer: Buffer): Buffer {
  const [kind, signature, ...more] = stringsIn(stringsIn(answer)[0] ?? answer);
  if (kind?.toString('latin1') === KEY_TYPE && signature?.length === SIGNATURE_BYTES && more.length === 0)
    return signature;
  const found = JSON.stringify(String(kind).slice(0, 40));
  throw new Error(`its signature is ${signature?.length} bytes of ${found}, and ${more.length} fields more`);
}
