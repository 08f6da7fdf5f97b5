import type { IncomingMessage, ServerResponse } from 'node:http';
import { wholeBodyOfBytes } from '../gate/carriers.js';
import {
  headersOf,
  type Denial,
  type HeaderLookup,
  type Opening,
  type RequestBody,
} from '../gate/request.js';
import { responseTo } from '../gate/response.js';
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
  const { bindingMode, maxBodyBytes, errors } = options;
  const guard = new Guard('http', options, bindingMode);
  const refuse: Refuse = (res, denial, next) => {
    if (errors === 'next') next(new DrsRefusalError(denial));
    else answer(res, denial);
  };
  return (req, res, next) =>
    guardNode(guard, req, res, next, refuse, () => {
      const request = { method: req.method ?? '', path: pathOf(req), headers: headersOfNode(req) };
      // Express and its like set it on the routes that find parameters.
      const { params } = req as { readonly params?: unknown };
      return openRoute(request, params, options, req, {
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
    } else if (!res.destroyed) {
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
    else res.writeHead(500, { connection: 'close' }).end();
  });
}

/** The outcome of a request whose response is closed. */
export function outcomeOf(res: ServerResponse): Outcome {
  if (!res.writableFinished) return 'cancelled';
  return res.statusCode >= 400 ? 'error' : 'ok';
}

/** The headers of a request. Node.js joins repeated headers with a comma, and keeps the first `Content-Type` alone. */
export function headersOfNode({ headers, rawHeaders }: IncomingMessage): HeaderLookup {
  const isType = (at: number) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'content-type';
  const types = rawHeaders.filter((_, at) => isType(at));
  return headersOf(types.length > 1 ? { ...headers, 'content-type': types } : headers);
}

/** The path and query of a request. Frameworks that mount handlers cut `url`, and keep the whole as `originalUrl`. */
export function pathOf(req: IncomingMessage & { readonly originalUrl?: unknown }): string | null {
  return typeof req.originalUrl === 'string' ? req.originalUrl : (req.url ?? null);
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
  const { rawBody } = req;
  const length = req.headers['content-length'];
  let bytes: Buffer | 'too large' | 'gone';
  if (req.readableDidRead) {
    if (!(rawBody instanceof Uint8Array))
      throw new Error(
        'the request body was read before the DRS middleware could see it: put the middleware in front of every body parser, ' +
          'or have the parser keep the bytes as req.rawBody (NestJS: the option rawBody)',
      );
    bytes = rawBody.length > maxBytes ? 'too large' : Buffer.from(rawBody);
  } else if (Number(length) > maxBytes) bytes = 'too large';
  else if (req.headers['transfer-encoding'] === undefined && Number(length ?? 0) === 0)
    bytes = Buffer.alloc(0);
  else bytes = req.destroyed ? 'gone' : await peekAtMost(req, maxBytes);
  if (bytes === 'gone') return bytes;
  return bytes === 'too large' ? tooLarge(maxBytes) : wholeBodyOfBytes(bytes, headersOfNode(req));
}

function peekAtMost(req: IncomingMessage, maxBytes: number): Promise<Buffer | 'too large' | 'gone'> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (outcome: Buffer | 'too large' | 'gone') => {
      req.off('readable', gather).off('end', end).off('close', leave).off('error', leave);
      resolve(outcome);
    };
    // `complete` is set before the stream ends. Data can be put back until `end` is emitted. `end` is not emitted while
    // there is data in the stream, nor before a read that finds it empty.
    const gather = () => {
      while (req.readableLength > 0) {
        const chunk = req.read() as Buffer | null;
        if (chunk === null) break;
        size += chunk.length;
        if (size > maxBytes) {
          settle('too large');
          return;
        }
        chunks.push(chunk);
      }
      if (!req.complete) return;
      const body = Buffer.concat(chunks, size);
      if (size > 0) req.unshift(body);
      settle(body);
    };
    const end = () => settle(Buffer.alloc(0));
    const leave = () => settle('gone');
    req.on('readable', gather).on('end', end).on('close', leave).on('error', leave);
  });
}
/** Changes the headers of a request as if its body had been sent as JSON, in each form in which they can be read. */
export function presentAsJson(req: IncomingMessage, length: number): void {
  const { headers, rawHeaders } = req;
  // HTTP/2 requests do not have it.
  const distinct = (req as Partial<IncomingMessage>).headersDistinct ?? {};
  const now = { 'content-type': 'application/json', 'content-length': String(length) };
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (!REPLACED.has(name.toLowerCase())) kept.push(name, value);
  }
  rawHeaders.splice(0, rawHeaders.length, ...kept, ...Object.entries(now).flat());
  delete headers['transfer-encoding'];
  delete distinct['transfer-encoding'];
  for (const [name, value] of Object.entries(now)) {
    headers[name] = value;
    distinct[name] = [value];
  }
}

const REPLACED: ReadonlySet<string> = new Set(['content-type', 'content-length', 'transfer-encoding']);

/** Answers a refused request. */
export function answer(res: ServerResponse, denial: Denial): void {
  if (res.headersSent || res.destroyed) return;
  const { status, headers, body } = responseTo(denial);
  res.statusCode = status;
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  // Close the connection: otherwise the rest of the body would have to be read first.
  if (status === 413) res.setHeader('connection', 'close');
  res.end(JSON.stringify(body));
}
