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
import { IssueError } from './issue-error.js';
import { issueOptions } from './options.js';
import type { Signer } from './signer.js';
import {
  AgentReader,
  KEY_TYPE,
  MAX_MESSAGE_BYTES,
  readIdentities,
  readSignature,
  stringOf,
  type Identity,
} from './ssh-agent-messages.js';

const OPTIONS = {
  /** The DID or the comment of the key; default: the only Ed25519 key of the agent. */
  key: { kind: text('a DID or a comment') },
  /** The path of the agent's socket; default: the environment variable `SSH_AUTH_SOCK`. */
  socket: { kind: text('a path', () => true) },
} satisfies Table;

/** Options of {@link sshAgentSigner}. */
export interface SshAgentOptions extends GivenOptions<typeof OPTIONS> {}

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
  const path = pathOf(socket);
  const identities = await ask(path, Uint8Array.of(REQUEST_IDENTITIES), IDENTITIES_ANSWER, readIdentities);
  const all = identities.map((identity) => ({ ...identity, did: didKeyOf(identity.publicKey) }));
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

function pathOf(socket = process.env['SSH_AUTH_SOCK']): string {
  if (socket !== undefined && socket !== '') return socket;
  throw new IssueError(
    'INVALID_KEY',
    'there is no ssh-agent: SSH_AUTH_SOCK is not set',
    'start one with `eval "$(ssh-agent)"` and add a key with `ssh-add`',
  );
}

function wrongChoice(
  key: string | undefined,
  keys: readonly (Identity & { readonly did: string })[],
): IssueError {
  const MAX_SHOWN = 8;
  const shown = keys.slice(0, MAX_SHOWN).map(({ did, comment }) => `${did} (${comment.slice(0, 100)})`);
  const list = shown.join(', ') + (keys.length > MAX_SHOWN ? ` and ${keys.length - MAX_SHOWN} more` : '');
  const wanted = key === undefined ? 'one Ed25519 key' : `the key ${JSON.stringify(key.slice(0, 100))}`;
  return keys.length === 0
    ? new IssueError(
        'INVALID_KEY',
        'the ssh-agent has no Ed25519 key',
        'make one with `ssh-keygen -t ed25519` and add it with `ssh-add`',
      )
    : new IssueError(
        'INVALID_KEY',
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
    const reader = new AgentReader();
    const socket = connect(path);
    const fail = (reason: string) => {
      socket.destroy();
      reject(
        new IssueError(
          'INVALID_KEY',
          `the ssh-agent at ${path} does not sign: ${reason}`,
          'check that this agent (SSH_AUTH_SOCK, or --agent-socket) runs and is not locked (`ssh-add -l`), and that you confirmed',
        ),
      );
    };
    socket.setTimeout(TIMEOUT_MS, () => fail(`it did not answer within ${TIMEOUT_MS / 1000} s`));
    socket.on('error', ({ message: reason }) => fail(reason));
    socket.on('close', () => fail('it closed the connection'));
    socket.on('data', (chunk) => {
      try {
        const answer = reader.read(chunk);
        if (answer === null) return;
        const [kind] = answer;
        if (kind !== expected) {
          fail(kind === FAILURE ? 'it refused' : `its answer has the number ${kind}, expected ${expected}`);
          return;
        }
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
