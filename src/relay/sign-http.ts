import type { IncomingMessage } from 'node:http';
import { targetOf as a2aTargetOf } from '../gate/a2a-rest.js';
import { BUNDLE_HEADER, MAX_HEADER_BUNDLE } from '../gate/carriers.js';
import type { Explained } from '../gate/codes.js';
import { shorten } from '../gate/request.js';
import { DRS_EXTENSION } from '../middleware/a2a/extension.js';
import { a2aCallOf, type A2aCall } from '../middleware/a2a/sign-requests.js';
import { readAtMost } from '../middleware/read-at-most.js';
import type { JsonValue } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { IssueError } from '../issue/index.js';
import { addressOf, readConfiguration, type Configuration } from '../service/configuration/configuration.js';
import { openLog } from '../service/main.js';
import { noteFor } from '../service/gate-decider.js';
import type { Answer } from '../service/http/incoming.js';
import { answerTo } from '../service/http/judged-body.js';
import { hostsOf, isLoopback, runHttpRelay, targetOf, type MakeJudge } from './http-relay.js';
import type { Destination } from './http-target.js';
import { MAX_MESSAGE_BYTES, messageOf, readBytes, refusalLine } from './message.js';
import type { Hook, Outcome, Sent } from './pump.js';
import { unsignable, type SignCall } from './sign.js';

const MAX_CARD_BYTES = 1024 * 1024;

/** What a listener that signs needs. */
export interface ListenerParts {
  /** A host and a port. */
  readonly listen: string;
  /** Whether other machines may reach it. */
  readonly isOnNetwork: boolean;
  readonly allowHost: readonly string[];
  readonly allowOrigin: readonly string[];
  readonly destination: Destination;
  readonly protocol: 'mcp' | 'a2a';
  readonly signer: Pick<Hook, 'decide'>;
  readonly signCall: SignCall;
  /** More headers of each request, in place of the caller's; by names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Takes HTTP requests, signs those that need it, and sends on all, until a signal ends this process.
 *
 * @returns its address, when it listens
 * @throws IssueError if it may not, or cannot listen
 */
export async function listenAndSign(parts: ListenerParts): Promise<string> {
  const { listen, isOnNetwork, allowHost, allowOrigin, destination } = parts;
  const wrong = (message: string, hint: string) => new IssueError('INVALID_OPTION', message, hint);
  const address = addressOf(listen);
  if (address === null)
    throw wrong(
      `--listen is ${JSON.stringify(listen)}, expected a host and a port`,
      'write 127.0.0.1:7070, or [::1]:7070; port 0 takes a free one',
    );
  const { host, port } = address;
  if (!isLoopback(host) && !isOnNetwork)
    throw wrong(
      `other machines can reach ${host}, and whoever reaches this port calls as this agent`,
      'listen on 127.0.0.1, or add --listen-on-network if you mean it',
    );
  try {
    const configuration = readConfiguration({
      HOST: host,
      PORT: String(port),
      ALLOWED_ORIGINS: allowOrigin.join(),
      WORKER_THREADS: '0',
      MAX_BODY_BYTES: String(MAX_MESSAGE_BYTES),
      LOG_LEVEL: 'warn',
    });
    const listener = { configuration, destination, hosts: hostsOf(host, allowHost) };
    const makeJudge = signJudge(configuration, parts);
    return await runHttpRelay({ ...listener, makeJudge, log: openLog(configuration, 2) }, false);
  } catch (error) {
    throw wrong((error as Error).message, 'correct the options, or choose another port');
  }
}

/** Signs the requests of a listener that need it, and sends on all. */
function signJudge(configuration: Configuration, parts: ListenerParts): MakeJudge {
  const { destination, protocol, signer, signCall, headers } = parts;
  const { url, pathFor } = destination;
  const isA2a = protocol === 'a2a';
  const signA2a = async (method: string, path: string, message: Sent): Promise<Sent | Answer> => {
    // In the form of the protocol: of JSON-RPC, if the request is.
    const refuse = (refusal: Explained, status: number) =>
      message.method === undefined
        ? { status, body: JSON.stringify({ error: refusal }) }
        : { status: 200, body: refusalLine(message, refusal, status) };
    let call: A2aCall | null;
    try {
      call = a2aCallOf(method, path, decodeUtf8(message.body));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      return refuse(unsignable('INVALID_PARAMS', error.message), 400);
    }
    if (call === null) return message;
    const what = `the method ${JSON.stringify(shorten(call.args['tool']))}`;
    const bundle = await signCall(call.command, call.args, what);
    return typeof bundle === 'string' ? { ...message, bundle } : refuse(bundle, 403);
  };
  return (_, forwarder) => ({
    maxBytes: configuration.maxBodyBytes,
    refuse: (_incoming, fault) => answerTo(fault, configuration),
    answer: async (incoming, body, ticket) => {
      const { method } = incoming;
      const path = pathFor(method, targetOf(incoming)) ?? '';
      const bytes = Buffer.from(body);
      const message = { ...messageOf({ bytes, isTooLong: false }), body: bytes };
      const isCard = isA2a && a2aTargetOf(method, path).kind === 'card';
      // Where the agent is not at the root, the card there may be another's.
      const isForeign = isCard && !path.startsWith(url.pathname.replace(/\/?$/, '/'));
      // Whoever sends a bundle has signed the request.
      const isSigned = incoming.header('x-drs-bundle') !== null;
      let signed: Outcome | Answer = message;
      if (isA2a && !isForeign && !isSigned) signed = await signA2a(method, path, message);
      else if (!isA2a && !isSigned && method === 'POST') {
        noteFor(incoming, { headers: () => [] }, message);
        signed = await signer.decide(message);
      }
      // To clients of MCP, another status than 200 is a broken transport.
      if (signed === null || typeof signed === 'string') return { status: 200, body: signed ?? '' };
      if ('status' in signed) return signed;
      const { bundle = '' } = signed;
      const set: Record<string, string> = isForeign ? {} : { ...headers };
      if (isCard) set['accept-encoding'] = 'identity';
      if (bundle !== '' && (isA2a || bundle.length <= MAX_HEADER_BUNDLE)) set[BUNDLE_HEADER] = bundle;
      const added = isA2a && bundle !== '' ? ['A2A-Extensions', DRS_EXTENSION] : [];
      // Where this is, servers of A2A 0.3 read no other.
      if (added.length > 0 && incoming.header('x-a2a-extensions') !== null)
        added.push('X-A2A-Extensions', DRS_EXTENSION);
      const here = `http://${incoming.header('host') ?? ''}`;
      return forwarder.send(incoming, ticket, {
        set,
        added,
        body: signed.body,
        ...(isCard && method === 'GET' && { onAnswer: (answer) => cardFor(answer, url.origin, here) }),
      });
    },
  });
}

/**
 * An agent card whose addresses lead to the port that signs: clients of A2A call the address in the card, whichever
 * address the card came from. The members named `url` with the agent's origin are changed, no others.
 *
 * @param here the origin of the port
 */
async function cardFor(answer: IncomingMessage, origin: string, here: string): Promise<string | null> {
  if (answer.statusCode !== 200) return null;
  const bytes = await readAtMost(answer, MAX_CARD_BYTES);
  const value = bytes === null ? undefined : readBytes(bytes);
  if (value === undefined) throw new Error('the agent card is no JSON, or too large');
  return JSON.stringify(value, (name, member: JsonValue) => {
    const url = name === 'url' && typeof member === 'string' && URL.canParse(member) ? new URL(member) : null;
    return url?.origin === origin ? here + url.pathname + url.search : member;
  });
}
