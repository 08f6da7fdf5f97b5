import { utf8Length } from '#platform';
import { wholeBodyOfBytes } from '../gate/carriers.js';
import { readHeaders, type Denial, type Opening, type RequestBody } from '../gate/request.js';
import { responseTo } from '../gate/response.js';
import { Guard, runAdmitted } from './guard.js';
import { type CheckedRoute, checkProtection, type MiddlewareOptions, ROUTE } from './options.js';
import { readAtMost } from '../protocol/read-at-most.js';
import { openRoute, tooLarge } from './route.js';

/** A handler of web-standard requests; `rest` are the further arguments of its framework. */
export type FetchHandler<Rest extends unknown[]> = (
  request: Request,
  ...rest: Rest
) => Response | Promise<Response>;

/**
 * Lets only verified calls reach a handler of web-standard requests: Next, Deno, Bun, and workers where the verifier is
 * remote. Same options and answers as `drsMiddleware`.
 *
 * @returns a handler of the same shape; the inner one finds the call with `drsContext()` or `drsContext(request)`
 * @throws TypeError naming every problem with the options, or if there is no handler
 * @example
 * const drs = { verifyUrl: 'http://127.0.0.1:8080', trustedRoots, serverIdentity, replayStore };
 * export const POST = drsFetch({ ...drs, tool: 'weather' }, async (request) => {
 *   return Response.json(forecast((await request.json()).city, drsContext().agent));
 * });
 */
export function drsFetch<Rest extends unknown[] = []>(
  given: MiddlewareOptions,
  handler: FetchHandler<Rest>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  const options = checkProtection(given, ROUTE);
  if (typeof handler !== 'function')
    throw new TypeError('drsFetch(options, handler): the handler is missing, expected a function');
  const guard = new Guard('http', options);
  return async (request, ...rest) => {
    const { opened, sent } = await openFetch(request, options, request);
    const decision = await guard.admit(opened);
    if (decision.kind === 'deny') return refusalResponse(decision);
    const hasFailed = ({ status }: Response) => status >= 400;
    const run = () => handler(sent, ...rest);
    return runAdmitted(decision, sent, run, hasFailed, () => request.signal.aborted);
  };
}

/**
 * Opens a web-standard request.
 *
 * @param subject the argument for functions in the options
 * @param found the parameters that the framework has found in the path
 * @returns the opened request; `sent` is the one for the handler, which is another if it came in an envelope
 */
export async function openFetch<R>(
  request: Request,
  options: CheckedRoute<R>,
  subject: R,
  found?: unknown,
): Promise<{ readonly opened: Opening; readonly sent: Request }> {
  let sent = request;
  const opened = await openRoute<R, never>(
    { method: request.method, target: targetOf(request), headers: readHeaders(request.headers) },
    found,
    options,
    subject,
    {
      read: () => readBody(request, options.maxBodyBytes),
      replace: (json) => (sent = withJson(request, json)),
    },
  );
  return { opened, sent };
}

/** The same request with another body. Frameworks have subclasses of `Request`, whose members handlers use. */
function withJson(request: Request, json: string): Request {
  const headers = new Headers(request.headers);
  headers.set('content-type', 'application/json');
  headers.set('content-length', String(utf8Length(json)));
  headers.delete('transfer-encoding');
  return new (request.constructor as typeof Request)(request, { headers, body: json });
}

function targetOf({ url }: Request): string {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

export function refusalResponse(denial: Denial): Response {
  const { status, headers, body } = responseTo(denial);
  return new Response(JSON.stringify(body), { status, headers });
}

/** Reads a copy of the body, so that the handler can still read the request. */
async function readBody(request: Request, maxBytes: number): Promise<RequestBody> {
  if (request.bodyUsed) {
    throw new Error(
      'the request body was read before the DRS middleware could see it: hand the request in unread',
    );
  }
  const isLonger = Number(request.headers.get('content-length')) > maxBytes;
  const { body } = request.clone();
  // Strictly: a platform that does not show the stream has no absent body.
  const bytes = isLonger ? null : await readAtMost(body === null ? [] : body, maxBytes);
  return bytes === null ? tooLarge(maxBytes) : wholeBodyOfBytes(bytes, readHeaders(request.headers));
}
