import { targetOf as restTargetOf } from '../gate/a2a-rest.js';
import { BUNDLE_HEADER } from '../gate/carriers.js';
import type { Explained } from '../gate/codes.js';
import { shorten } from '../gate/request.js';
import { DRS_EXTENSION } from '../middleware/a2a/extension.js';
import { a2aCallOf, requireHeaderRoom } from '../middleware/a2a/sign-requests.js';
import { decodeUtf8 } from '#platform';
import { IssueError } from '../issue/index.js';
import { addressOf, readConfiguration } from '../service/configuration/configuration.js';
import { openLog } from '../service/main.js';
import { noteFor } from '../service/http/logged-request.js';
import type { Exchange } from '../service/http/exchange.js';
import { Backlog } from '../service/load/backlog.js';
import { Gatekeeper, MAX_TYPICAL_BYTES } from '../service/load/gatekeeper.js';
import { Metrics } from '../service/observe/metrics/metrics.js';
import { isLoopback } from '../protocol/loopback.js';
import { cardFor } from './card.js';
import { hostsOf, runHttpRelay } from './http-relay.js';
import type { Forwarded, MakeHandler, OwnAnswer } from './http-relay.js';
import type { Destination } from './http-target.js';
import { endsOf } from './lines.js';
import { MAX_MESSAGE_BYTES, messageOf, refusalLine, type Message } from './message.js';
import { bundleHeader, type Hook, type Decided, type Sent } from './pump.js';
import { TOO_LONG, unsignable, type SignCall } from './sign.js';

/** Why a request is not taken, and with which status. */
const FAULTS: Record<'too_large' | 'timeout' | 'overloaded', readonly [Explained, number]> = {
  too_large: [TOO_LONG, 413],
  timeout: [unsignable('BODY_TIMEOUT', 'its body did not come whole in time'), 408],
  overloaded: [unsignable('VERIFIER_UNAVAILABLE', 'there is no room', 'Send it again in a moment.'), 503],
};

const NOBODY = messageOf({ bytes: Buffer.alloc(0), isTooLong: false });

export interface ListenerParts {
  /** A host and a port. */
  readonly listen: string;
  readonly listenOnNetwork?: true;
  readonly allowHost: readonly string[];
  readonly allowOrigin: readonly string[];
  readonly allowAddress: readonly string[];
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
  const { listen, listenOnNetwork, allowHost, allowOrigin, destination } = parts;
  const wrong = (message: string, hint: string) => new IssueError('INVALID_OPTION', message, hint);
  const address = addressOf(listen);
  if (address === null)
    throw wrong(
      `--listen is ${JSON.stringify(listen)}, expected a host and a port`,
      'write 127.0.0.1:7070, or [::1]:7070; port 0 takes a free one',
    );
  const { host, port } = address;
  if (!isLoopback(host) && listenOnNetwork !== true)
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
      // So much is read of all bodies at a time, and of one client's half of it.
      MAX_BODY_MEMORY: String(64 * MAX_MESSAGE_BYTES),
      LOG_LEVEL: 'warn',
    });
    const listener = { configuration, destination, hosts: hostsOf(host, allowHost) };
    const log = openLog(configuration, 2);
    const rename = (text: string) => text.replace('ALLOWED_ORIGINS', '--allow-origin');
    const metrics = new Metrics();
    const gatekeeper = new Gatekeeper(configuration, new Backlog(configuration, { waitMs: 0 }));
    const openDecider = () => Promise.resolve({ gatekeeper, metrics, makeHandler: signOver(parts) });
    return await runHttpRelay({ ...listener, openDecider, log, rename }, false);
  } catch (error) {
    throw wrong((error as Error).message, 'correct the options, or choose another port');
  }
}

/** Signs the requests of a listener that need it, and sends on all. They wait in no queue with limits, since they are one agent's. */
function signOver(parts: ListenerParts): MakeHandler {
  const sign = parts.protocol === 'a2a' ? signA2a : signMcp;
  return (forwarder) => async (exchange, ticket) => {
    // Of a body that is too long, the ends are read: they have its id.
    const body = await exchange.read(4 * MAX_MESSAGE_BYTES, ticket);
    if (body === 'gone') return null;
    if (typeof body === 'string') return refuse(NOBODY, ...FAULTS[body]);
    // A body that came in one piece is not counted yet.
    if (body.length <= MAX_TYPICAL_BYTES && !ticket.grow(body.length))
      return refuse(NOBODY, ...FAULTS.overloaded);
    const isTooLong = body.length > MAX_MESSAGE_BYTES;
    const message = { ...messageOf({ bytes: isTooLong ? endsOf(body) : body, isTooLong }), body };
    const signed = isTooLong ? refuse(message, ...FAULTS.too_large) : await sign(exchange, message, parts);
    if ('status' in signed) return signed;
    const sent = await forwarder.send(exchange, ticket, signed);
    return sent === null ? null : refuse(message, ...FAULTS.overloaded);
  };
}

/** To clients that speak JSON-RPC, another status than 200 is a broken transport. */
function refuse(message: Message, refusal: Explained, status: number): OwnAnswer {
  return message.method === undefined
    ? { status, body: JSON.stringify({ error: refusal }) }
    : { status: 200, body: refusalLine(message, refusal, status) };
}

/** Makes of a client's request what is sent on, or its answer. Whoever sends a bundle has signed it. */
type Sign = (exchange: Exchange, message: Sent, parts: ListenerParts) => Promise<Forwarded | OwnAnswer>;

const signMcp: Sign = async (exchange, message, { signer, headers }) => {
  let signed: Decided = message;
  if (exchange.method === 'POST' && exchange.header('x-drs-bundle') === null) {
    noteFor(exchange, { headers: new Map() }, message);
    signed = await signer.decide(message);
  }
  if (signed === null || typeof signed === 'string') return { status: 200, body: signed ?? '' };
  return { set: { ...headers, ...bundleHeader(signed.bundle) }, body: signed.body };
};

const signA2a: Sign = async (exchange, message, parts) => {
  const { destination, signCall, headers, allowAddress } = parts;
  const { method } = exchange;
  const path = destination.pathFor(method, exchange.target) ?? '';
  const target = restTargetOf(method, path);
  const called = target.kind === 'rest' ? target.method : message.method;
  // Clients look for a card wherever they are told.
  const isCard = called === undefined ? method === 'GET' : /card$/i.test(called);
  // Where the agent is not at the root, the card there may be another's.
  const isForeign = isCard && destination.url.pathname !== '/' && path.startsWith('/.well-known/');
  const set: Record<string, string> = isForeign ? {} : { ...headers };
  const added: string[] = [];
  if (isCard) set['accept-encoding'] = 'identity';
  try {
    const isUnsigned = !isForeign && exchange.header('x-drs-bundle') === null;
    const call = isUnsigned ? a2aCallOf(method, path, decodeUtf8(message.body)) : null;
    if (call !== null) {
      const what = `the method ${JSON.stringify(shorten(call.args['tool']))}`;
      const bundle = await signCall(call.command, call.args, what);
      if (typeof bundle !== 'string') return refuse(message, bundle, 403);
      requireHeaderRoom(bundle);
      set[BUNDLE_HEADER] = bundle;
      added.push('A2A-Extensions', DRS_EXTENSION);
      // Where this is, servers of A2A 0.3 read no other.
      if (exchange.header('x-a2a-extensions') !== null) added.push('X-A2A-Extensions', DRS_EXTENSION);
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return refuse(message, unsignable('INVALID_PARAMS', error.message), 400);
  }
  const here = `http://${exchange.header('host') ?? ''}`;
  return {
    set,
    added,
    body: message.body,
    // The whole card is wanted, also where the client has an older one, or a part.
    isLeftOut: (name) => isCard && /^(?:range|if-.*)$/.test(name),
    // A redirect leads past this port, too.
    onAnswer: (found) => cardFor(found, isCard, destination, here, allowAddress),
  };
};
