import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { keptOf, type ApprovalEvent } from '../../../approval/events.js';
import type { Explained } from '../../../gate/codes.js';
import { agreementOf } from '../../../gate/context.js';
import { isJsonObject, type JsonObject } from '../../../protocol/json.js';
import { parseCompactJwt } from '../../../protocol/jwt.js';
import type { Refunded } from '../../../usage/index.js';
import type { Approved } from '../../../verify/approval.js';
import type { Failure } from '../../../verify/codes.js';
import type { Judgement } from '../../../verify/judge.js';
import { UNPRINTABLE, withoutControls } from '../../../verify/unprintable.js';
import type { Configuration } from '../../configuration/configuration.js';
import type { LoggedRequest } from '../../http/logged-request.js';
import { traceIdOf } from '../../http/logged-request.js';
import type { ContextClaims } from '../../routes/context-token.js';
import { openSampler } from '../sampler.js';
import type { LineFile } from '../../../log/line-file.js';

export type VerdictLogs = ReturnType<typeof verdictLogsOf>;

/** What a gate refuses by itself. */
interface GateDenial {
  readonly failure: Explained;
  /** What the call asks for, as far as it was read. */
  readonly requested: string | null;
}

/** Names who writes a line among all that write decision logs, several on one host included. */
export const INSTANCE = `${hostname()}/${process.pid}`;

/**
 * The logs of verdicts: refusals in the log of the service, so that one can be found by its request id (`LOG_REFUSALS`), and the
 * decision log, with one JSON line for each verdict, decision, refund, and event of a question to a person. docs/spec/log.md has their members.
 *
 * @param decisions `null` if there is no decision log
 * @param nameOf what the operator calls a principal
 * @param stateOf what else a verdict depends on, for who checks it years later; `undefined` where nobody does
 */
export function verdictLogsOf(
  {
    logRefusals,
    logStatements,
    decisionLogBundles,
  }: Pick<Configuration, 'logRefusals' | 'logStatements' | 'decisionLogBundles'>,
  log: Logger,
  decisions: LineFile | null,
  nameOf: NameOf,
  stateOf: () => object | undefined = () => undefined,
) {
  const logLeftOut = (leftOut: number) => log.info({ leftOut }, 'refused: as many more, left out of the log');
  const refusals =
    logRefusals === 'off' ? null : openSampler(logLeftOut, logRefusals === 'all' ? Infinity : undefined);

  /** Writes a line of the decision log. What is `undefined` is left out. */
  const write = ({ requestId, address, parent, endpoint }: LoggedRequest, facts: object): void => {
    if (decisions === null) return;
    const asked = { time: new Date().toISOString(), requestId, instance: INSTANCE, address };
    const traceId = traceIdOf(parent);
    const line = JSON.stringify({ ...asked, traceId, endpoint, ...facts });
    // What is not a bundle is printable already.
    decisions.write(decisionLogBundles ? withoutControls(line) : line);
  };

  /** A bundle as it came; `null` if it is larger than a line takes, or none. */
  const bundleIn = (bundle: unknown): object | null | undefined => {
    if (!decisionLogBundles) return undefined;
    const { bundle_version, receipts, invocation } = isJsonObject(bundle) ? bundle : {};
    const texts = Array.isArray(receipts) ? [bundle_version, invocation, ...receipts] : [null];
    let left = MAX_DECODED;
    for (const text of texts) if (typeof text !== 'string' || (left -= text.length) < 0) return null;
    return { bundle_version, receipts, invocation };
  };

  return {
    decisions,

    /**
     * Records an outcome. Call it before the answer is written, so that the answer carries the request id.
     *
     * @param outcome `null` if no bundle was judged
     * @param bundle the bundle that was judged
     * @param denial why a gate denies the call, other than by the outcome
     * @param isObserved whether it is on trial, and let the call pass
     * @param approval the yes that an allowed call has used
     */
    record(
      request: LoggedRequest,
      outcome: Judgement | null,
      bundle: unknown,
      denial: GateDenial | null = null,
      isObserved = false,
      approval?: Approved,
    ): void {
      const refused = refusalOf(outcome, denial);
      if (refused !== null && !isObserved) request.code = refused.code;
      const isLogged = refused !== null && refusals?.admits() === true;
      if (!isLogged && decisions === null) return;
      const call = outcome === null ? requestedBy(denial) : callIn(outcome, bundle, nameOf);
      if (isLogged) {
        const { requestId, parent } = request;
        log.info(
          { ...refused, requestId, traceId: traceIdOf(parent), ...call },
          isObserved ? 'observed' : 'refused',
        );
      }
      const valid = outcome === null ? undefined : outcome.failure === null;
      const receipts = outcome?.chain?.receipts.map(({ digest }) => digest);
      // Of a refusal, nothing of this is proved.
      const agreed =
        outcome?.failure === null
          ? printableIn(agreementOf(outcome.chain.root.claims, outcome.invocation.claims))
          : undefined;
      const binding = outcome?.binding ?? undefined;
      const observed = isObserved || undefined;
      const yes = printableIn(approval);
      const rest = { approval: yes, ...call, state: stateOf(), bundle: bundleIn(bundle) };
      write(request, { valid, ...refused, observed, binding, receipts, agreed, ...rest });
    },

    /**
     * Records a refund of a call that a gate allowed.
     *
     * @param refund `done`, or the code of why nothing was given back
     */
    recordRefund(
      request: LoggedRequest,
      { sub: rootPrincipal, agent: iss, jti, tool, charged = [], command: cmd, ...context }: ContextClaims,
      refund: string,
      { calls, total_cost_usd: usd }: Refunded,
    ): void {
      const receipts = charged.map(({ receipt }) => printable(receipt));
      const call = { iss, jti, cmd, tool_server: context.aud, args: { tool } };
      const who = { rootPrincipal, rootName: context.root_name };
      write(request, { refund, calls, totalCostUsd: usd, receipts, ...callOf(who, call) });
    },

    /** Records what happens to a question; of a yes all that proves it, so that `drs-verify audit --approval` can say whose it is. */
    recordApproval(event: ApprovalEvent): void {
      if (decisions === null) return;
      const { kind, root: rootPrincipal, agent: iss, command: cmd } = event;
      const call = callOf({ rootPrincipal, rootName: nameOf(rootPrincipal) }, { iss, cmd });
      const head = { time: new Date().toISOString(), instance: INSTANCE, endpoint: 'approve', event: kind };
      const line = { ...head, ...call, approval: keptOf(event, logStatements) };
      // The statement must keep its value, whatever the agent has written.
      decisions.write(withoutControls(JSON.stringify(line)));
    },

    async close(): Promise<void> {
      refusals?.close();
      await decisions?.close();
    },
  };
}

/** What the operator calls a principal; `undefined` if it has no name. */
export type NameOf = (did: string) => string | undefined;

const MAX_MESSAGE = 500;

/** Why a call is refused; `null` if it is not. `block` is only that of a verdict. */
function refusalOf(outcome: Judgement | null, denial: GateDenial | null) {
  const failure = outcome?.failure ?? null;
  if (failure !== null) {
    const { block, code } = failure;
    return { block, code, message: messageOf(failure) };
  }
  if (denial === null) return null;
  const { code, message } = denial.failure;
  // Where no bundle was judged, a message may quote what nobody could read.
  return { code, message: outcome === null ? undefined : printableMessage(message) };
}

/** What was found may be anything in block A, and a signature in block C: then its place alone is named. */
function messageOf({ block, message, subject, member }: Failure): string | null {
  if (block !== 'A' && block !== 'C') return printableMessage(message);
  const place =
    typeof subject === 'number' ? `Receipt ${subject}` : subject === 'bundle' ? 'Bundle' : 'Invocation';
  return member === undefined ? place : `${place}: ${member}`;
}

/** A message for a log line: without the members of an argument, which may be secret. */
export function printableMessage(message: string): string | null {
  return printable(message.replace(/(\bargs\.\w+ is )[[{].*/s, '$1…'), MAX_MESSAGE);
}

// More is not worth decoding again for a log line.
const MAX_DECODED = 64 * 1024;
const MAX_NODES = 4096;
/** The default of MAX_CHAIN_DEPTH: a bundle that is refused for its length does not make a line long. */
const MAX_RECEIPTS = 16;

/**
 * Who asked for what by a bundle, of any type and length. If it was refused, it is decoded again, and none of this is proved. Never
 * more than this: arguments may be secret, and anybody who has receipts and signatures can use them.
 */
function callIn(outcome: Judgement, bundle: unknown, nameOf: NameOf) {
  if (outcome.failure === null) {
    const { chain, root, invocation } = outcome;
    const delegates = chain.receipts.map(({ claims }) => claims.aud);
    return callOf(
      { rootPrincipal: chain.root.claims.iss, rootName: root.name ?? undefined, delegates },
      invocation.claims,
    );
  }
  return readCall(bundle, nameOf);
}

/** The same of a bundle of which nothing is known. */
export function readCall(bundle: unknown, nameOf: NameOf) {
  const { receipts, invocation } = isJsonObject(bundle) ? bundle : {};
  let left = MAX_DECODED;
  const claims: JsonObject[] = [];
  for (const jwt of Array.isArray(receipts) ? receipts.slice(0, MAX_RECEIPTS) : []) {
    if (typeof jwt !== 'string' || (left -= jwt.length) < 0) break;
    claims.push(payloadOf(jwt));
  }
  const rootPrincipal = claims[0]?.['iss'];
  const rootName = typeof rootPrincipal === 'string' ? nameOf(rootPrincipal) : undefined;
  return callOf({ rootPrincipal, rootName, delegates: claims.map(({ aud }) => aud) }, payloadOf(invocation));
}

function requestedBy(denial: GateDenial | null) {
  const tool = denial?.requested ?? null;
  return tool === null ? {} : { tool: printable(tool) };
}

type Claims = Partial<Readonly<Record<'iss' | 'jti' | 'args' | 'cmd' | 'tool_server', unknown>>>;

interface Who {
  readonly rootPrincipal: unknown;
  readonly rootName?: string | undefined;
  readonly delegates?: readonly unknown[];
}

/** What lines say of a call. */
export function callOf({ rootPrincipal, rootName, delegates }: Who, claims: Claims) {
  const { iss, jti, args, cmd, tool_server: toolServer } = claims;
  return {
    rootPrincipal: printable(rootPrincipal),
    rootName: rootName && printable(rootName),
    delegates: delegates?.map((did) => printable(did)),
    agent: printable(iss),
    jti: printable(jti),
    tool: printable(isJsonObject(args) ? args['tool'] : null),
    command: printable(cmd),
    toolServer: printable(toolServer),
  };
}

function payloadOf(jwt: unknown): JsonObject {
  if (typeof jwt !== 'string' || jwt.length > MAX_DECODED) return {};
  const parts = parseCompactJwt(jwt, MAX_NODES);
  return parts.defect === undefined ? parts.payload : {};
}

/** Maximum size of a text in a log line, in bytes of UTF-8; the rest is cut off. */
const MAX_BYTES = 200;
const encoder = new TextEncoder();
const scratch = new Uint8Array(512);
const PLAIN = /^[ -~]*$/;

/** A value with each text in it made {@link printable}. */
function printableIn(value: unknown): unknown {
  if (typeof value === 'string') return printable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(printableIn);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, printableIn(member)]));
}

/**
 * A text without characters that control terminals, cut at 200 bytes, between two characters; `null` for a value that is not
 * a text. Others count bytes too: how long a line is, and how much of one a pipe takes whole.
 */
export function printable(value: unknown, maxBytes = MAX_BYTES): string | null {
  if (typeof value !== 'string') return null;
  let text = value.slice(0, maxBytes);
  let isCut = text.length < value.length;
  // Nearly every value is plain ASCII, and the rest takes a microsecond.
  if (!PLAIN.test(text)) {
    text = text.replace(UNPRINTABLE, '?');
    const { read } = encoder.encodeInto(text, scratch.subarray(0, maxBytes));
    isCut ||= read < text.length;
    text = text.slice(0, read);
  }
  return isCut ? `${text}…` : text;
}
