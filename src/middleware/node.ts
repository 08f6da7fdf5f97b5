import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { wholeBodyOfBytes } from '../gate/carriers.js';
import {
  readHeaders,
  type Denial,
  type Opening,
  type RequestBody,
  type RequestHead,
} from '../gate/request.js';
import { responseTo } from '../gate/response.js';
import { bytesIn } from '../protocol/bytes.js';
import { runWithContext } from './context.js';
import type { Outcome } from './events.js';
import { Guard } from './guard.js';
import { checkProtection, type MiddlewareOptions, ROUTE_OR_NEXT } from './options.js';
import { DrsRefusalError } from './refusal-error.js';
import { openRoute, tooLarge } from './route.js';

/** Middleware for node:http, Connect, Express, restify and other frameworks with this signature. */
export type NodeMiddleware<R extends IncomingMessage = IncomingMessage> = (
  req: R,
  res: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** Options of {@link drsMiddleware}. */
export type NodeMiddlewareOptions<R extends IncomingMessage = IncomingMessage> = MiddlewareOptions<R> & {
  /** `next`: pass a refusal to `next(error)` as a `DrsRefusalError` instead of answering. Default: `answer`. */
  readonly errors?: 'answer' | 'next';
};

/**
 * Lets only verified calls reach the handlers behind it.
 *
 * Put it in front of every body parser. The handler must take the call's arguments from the body alone, and from what
 * the option `parameters` names: nothing else of the request is signed.
 *
 * @returns middleware that answers 401, 400, 403, 409, 413 or 503 itself, and otherwise calls `next()`; the handler
 *   finds the call with `drsContext(req)`
 * @throws TypeError naming every problem with the options
 * @example
 * const drs = { verifier: createVerifier(), trustedRoots, serverIdentity, replayStore: createMemoryReplayStore() };
 * app.post('/weather', drsMiddleware({ ...drs, tool: 'weather' }), express.json(), (req, res) => {
 *   res.json(forecast(req.body.city, drsContext(req).agent));
 * });
 */
export function drsMiddleware<R extends IncomingMessage = IncomingMessage>(
  given: NodeMiddlewareOptions<R>,
): NodeMiddleware<R> {
  const options = checkProtection(given, ROUTE_OR_NEXT);
  const { maxBodyBytes, errors } = options;
  const guard = new Guard('http', options);
  const refuse: Refuse = (res, denial, next) => {
    if (errors === 'next') next(new DrsRefusalError(denial));
    else answer(res, denial);
  };
  return (req, res, next) =>
    guardNode(guard, req, res, next, refuse, () => {
      // Express and its like set it on the routes that find parameters.
      const { params } = req as { readonly params?: unknown };
      return openRoute(headOf(req), params, options, req, {
        read: () => readBody(req, maxBodyBytes),
        replace: (json) => {
          const bytes = Buffer.from(json);
          if (req.readableDidRead && 'rawBody' in req) {
            // A parser came first, and handlers see what it made of the envelope.
            Object.assign(req, { rawBody: bytes, body: JSON.parse(json) as unknown });
          } else {
            // The whole body has been put back, and nothing else has read since.
            req.read();
            req.unshift(bytes);
          }
          presentAsJson(req, bytes.length);
        },
      });
    });
}

type Refuse = (res: ServerResponse, denial: Denial, next: (error?: unknown) => void) => void;

/**
 * Opens a request, and runs its handler if the request may pass: at most once, and never because of an error. A handler
 * of `node:http` that is passed as `next` does not look at its argument.
 *
 * @param open returns `gone` if the client disconnects before its body is read
 */
export function guardNode(
  guard: Guard,
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void,
  refuse: Refuse,
  open: () => Promise<Opening | 'gone'>,
): void {
  const decide = async () => {
    try {
      const opened = await open();
      return opened === 'gone' ? opened : await guard.admit(opened);
    } catch (error) {
      return guard.fail(error);
    }
  };
  const run = async () => {
    const decision = await decide();
    if (decision === 'gone') return;
    if (decision.kind === 'deny') {
      refuse(res, decision, next);
    } else if (decision.kind === 'pass') {
      runWithContext(null, req, () => next());
    } else if (!res.destroyed && (req as BodyStream).aborted !== true) {
      // Not `finish`: a caller that disconnects early must not keep its call out of the audit log. If it has already
      // disconnected, the call is not executed.
      res.once('close', () => decision.finish(outcomeOf(res)));
      runWithContext(decision.context, req, () => next());
    }
  };
  run().catch((error: unknown) => {
    // What the handler threw. Frameworks catch that themselves; `node:http` does not.
    guard.report(error);
    if (res.headersSent) res.destroy();
    else res.writeHead(500, closing(res)).end();
  });
}

export function outcomeOf(res: ServerResponse): Outcome {
  if (!res.writableFinished) return 'cancelled';
  return res.statusCode >= 400 ? 'error' : 'ok';
}

/** The head of a request. Frameworks that mount handlers cut `url`, and keep the whole as `originalUrl`. */
export function headOf(req: IncomingMessage & { readonly originalUrl?: unknown }): RequestHead {
  // What stands for a request in a test may have headers in one form alone.
  const rawHeaders = (req as Partial<IncomingMessage>).rawHeaders ?? [];
  const isType = (at: number) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'content-type';
  const types = rawHeaders.filter((_, at) => isType(at));
  return {
    method: req.method ?? '',
    target: typeof req.originalUrl === 'string' ? req.originalUrl : (req.url ?? null),
    // Node.js joins repeated headers with a comma, and keeps the first `Content-Type` alone.
    headers: readHeaders(types.length > 1 ? { ...req.headers, 'content-type': types } : req.headers),
  };
}

/**
 * Reads the whole body of a request and puts it back, so that the next reader finds it intact.
 *
 * If something has read it already, the bytes that it kept as `rawBody` are the body (NestJS with the option `rawBody`).
 *
 * @returns `gone` if the client disconnects first
 * @throws Error if something else has already read from the request, and has not kept the bytes
 */
export async function readBody(
  req: IncomingMessage & { readonly rawBody?: unknown },
  maxBytes: number,
): Promise<RequestBody | 'gone'> {
  if (isUnread(req)) return peekBody(req, req, maxBytes);
  const own = putBack.get(req);
  const isBack = own !== undefined && own.length === req.readableLength && !req.readableEnded;
  const bytes = isBack ? own : bytesIn(req.rawBody);
  if (bytes === null)
    throw new Error(
      'the request body was read before the DRS middleware could see it, or is no stream of bytes: put the middleware in ' +
        'front of every body parser, or have the parser keep the bytes as req.rawBody (NestJS: the option rawBody)',
    );
  return bytes.length > maxBytes ? tooLarge(maxBytes) : bodyOf(Buffer.from(bytes), req);
}

const bodyOf = (bytes: Buffer, req: IncomingMessage) => wholeBodyOfBytes(bytes, headOf(req).headers);

/** A stream of Node.js, and what some streams have that stand for the body of a request. */
type BodyStream = Readable & {
  /** `readableEnded` becomes true only with the event `end`, which then no other reader gets. */
  readonly _readableState?: { readonly ended: boolean };
  /** HTTP/2 ends a stream that was reset, and says only here that the client has gone. */
  readonly aborted?: boolean;
};

/**
 * Whether all bytes of a body are still to come, so that reading it proves what is in it. With an encoding, a stream gives text; what
 * tests make may be no stream, which has none, not even `null`.
 */
export function isUnread(body: BodyStream): boolean {
  return !body.readableDidRead && body.readableEncoding === null;
}

/** Reads the body that a stream holds, and puts it back. An absent body is a stream that has ended without a byte. */
export async function peekBody(
  req: IncomingMessage,
  stream: Readable,
  maxBytes: number,
): Promise<RequestBody | 'gone'> {
  if (Number(req.headers['content-length']) > maxBytes) return tooLarge(maxBytes);
  const bytes = await peekAtMost(stream, maxBytes);
  if (bytes === 'gone') return bytes;
  if (bytes === 'too large') return tooLarge(maxBytes);
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers;
  // Of HTTP/2 and on Lambda, a body may come with neither. Parsers skip it then, and a call would run without its arguments.
  if (bytes.length > 0 && length === undefined && coding === undefined)
    replaceHeaders(req, { 'content-length': String(bytes.length) });
  return bodyOf(bytes, req);
}

/** Bodies that were read here and stand in their streams again: what comes behind may be such a middleware, too. */
const putBack = new WeakMap<Readable, Buffer>();

export async function peekAtMost(
  stream: BodyStream,
  maxBytes: number,
): Promise<Buffer | 'too large' | 'gone'> {
  // In this turn the parser of HTTP/1.1 ends a body that is not there. Whoever listens before that, brings about `end`.
  await Promise.resolve();
  if (stream.destroyed) return 'gone';
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (outcome: Buffer | 'too large' | 'gone') => {
      stream.off('readable', gather).off('end', gather).off('close', leave).off('error', leave);
      resolve(outcome);
    };
    // Data can be put back until `end` is emitted. That is not emitted while there is data in the stream, nor before a read
    // that finds it empty: so this reads only what is there.
    const gather = () => {
      while (stream.readableLength > 0) {
        const chunk = stream.read() as Buffer | null;
        if (chunk === null) break;
        size += chunk.length;
        if (size > maxBytes) {
          settle('too large');
          return;
        }
        chunks.push(chunk);
      }
      if (stream._readableState?.ended !== true) return;
      const body = Buffer.concat(chunks, size);
      if (size > 0) stream.unshift(body);
      putBack.set(stream, body);
      // On Lambda, serverless-express says that it is not as soon as its app waits for something: then parsers skip it.
      stream.readable = true;
      settle(stream.aborted === true ? 'gone' : body);
    };
    const leave = () => settle('gone');
    if (stream._readableState?.ended === true) gather();
    else stream.on('readable', gather).on('end', gather).on('close', leave).on('error', leave);
  });
}

/** Changes the headers of a request as if its body had been sent as JSON. */
export function presentAsJson(req: IncomingMessage, length: number): void {
  replaceHeaders(req, { 'content-type': 'application/json', 'content-length': String(length) });
}

/** Replaces headers that describe a body, in each form in which they can be read. */
function replaceHeaders(req: IncomingMessage, now: Readonly<Record<string, string>>): void {
  const { headers, rawHeaders } = req;
  // HTTP/2 requests do not have it.
  const distinct = (req as Partial<IncomingMessage>).headersDistinct ?? {};
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    const lower = name.toLowerCase();
    if (!Object.hasOwn(now, lower) && lower !== 'transfer-encoding') kept.push(name, value);
  }
  rawHeaders.splice(0, rawHeaders.length, ...kept, ...Object.entries(now).flat());
  delete headers['transfer-encoding'];
  delete distinct['transfer-encoding'];
  for (const [name, value] of Object.entries(now)) {
    headers[name] = value;
    distinct[name] = [value];
  }
}

export function answer(res: ServerResponse, denial: Denial): void {
  if (res.headersSent || res.destroyed) return;
  const { status, headers, body } = responseTo(denial);
  res.statusCode = status;
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  // Close the connection: otherwise the rest of the body would have to be read first.
  if (status === 413) for (const [name, value] of Object.entries(closing(res))) res.setHeader(name, value);
  res.end(JSON.stringify(body));
}

/** Has the connection closed after an answer. HTTP/2 has no such header, and closes streams. */
export const closing = (res: ServerResponse): Record<string, string> =>
  'stream' in res ? {} : { connection: 'close' };
