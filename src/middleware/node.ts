import type { IncomingMessage, ServerResponse } from 'node:http';
import { bodyOfBytes, type CallBody } from './call-body.js';
import { runWithContext } from './context.js';
import { Gate, type Admission } from './gate.js';
import { bodyRulesOf, type MiddlewareOptions } from './options.js';
import { readBody } from './read-body.js';
import { BUNDLE_HEADER, bodyTooLarge, type Refusal } from './refusal.js';

/** Middleware for node:http, Connect, Express, restify and whatever else has this shape. */
export type NodeMiddleware = (
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** What became of a request: admitted, let pass without a bundle, or already over. */
type Passage = Admission | 'absent' | 'over';

/**
 * Lets only verified calls reach the handlers behind it. Service document 4.6, decisions sections 6 and 7.
 *
 * Put it in front of every body parser. The handler must take the call's arguments from the body alone: nothing else
 * of the request is signed.
 *
 * @returns middleware that answers 401, 400, 403, 409, 413 or 503 itself, and otherwise calls `next()`; the handler
 *   finds the call with `drsContext(req)`
 * @throws TypeError where the options contradict each other
 * @example
 * const drs = drsMiddleware({ verifier: createVerifier(), replayStore: createMemoryReplayStore() });
 * app.post('/tools', drs, express.json(), (req, res) => res.json(run(req.body, drsContext(req).root_principal)));
 */
export function drsMiddleware(options: MiddlewareOptions): NodeMiddleware {
  const gate = new Gate(options);
  const rules = bodyRulesOf(options);
  const admit = async (req: IncomingMessage, res: ServerResponse): Promise<Passage> => {
    const opened = gate.open(bundleHeaderOf(req));
    if (opened.kind === 'absent') return 'absent';
    if (opened.kind === 'refused') return refuse(res, opened.refusal);
    const body =
      rules.bindingMode === 'off'
        ? ({ kind: 'unread' } as const)
        : await bodyOf(req, res, rules.maxBodyBytes);
    if (body === null) return 'over';
    const judged = await gate.judge(opened, body, rules.bindingMode);
    return judged.kind === 'refused' ? refuse(res, judged.refusal) : judged;
  };
  return (req, res, next) => guardNode(gate, req, res, next, admit);
}

/** Runs what decides on a request, then its handler if the request may pass. */
export function guardNode(
  gate: Gate,
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void,
  admit: (req: IncomingMessage, res: ServerResponse) => Promise<Passage>,
): void {
  admit(req, res).then((passage) => {
    if (passage === 'absent') runWithContext(null, req, () => next());
    // Nobody waits for an answer any more, and `close`, which publishes the event, has been.
    if (typeof passage === 'string' || res.destroyed) return;
    // Not `finish`: a caller that hangs up early must not keep its call out of the audit log.
    res.once('close', () => gate.publish(passage));
    runWithContext(passage.context, req, () => next());
  }, next);
}

/** The bundle header as it came; two of them are joined by a comma, which no base64url has. */
export function bundleHeaderOf(req: IncomingMessage): string | undefined {
  const header = req.headers[BUNDLE_HEADER.toLowerCase()];
  return Array.isArray(header) ? header.join(',') : header;
}

/** Reads the body of a request, or answers it and returns `null`. */
export async function bodyOf(
  req: IncomingMessage,
  res: ServerResponse,
  most: number,
): Promise<CallBody | null> {
  const bytes = await readBody(req, most);
  if (bytes === 'gone') return null;
  if (bytes === 'too large') {
    // What is left of the body would be taken for the next request, or read to the end.
    res.setHeader('Connection', 'close');
    refuse(res, bodyTooLarge(most));
    return null;
  }
  return bodyOfBytes(bytes, {
    contentType: req.headers['content-type'],
    contentEncoding: req.headers['content-encoding'],
  });
}

/** Answers a refused request; `body` is sent in place of the refusal's own. */
export function refuse(res: ServerResponse, refusal: Refusal, body: object = refusal.body): 'over' {
  if (res.headersSent || res.destroyed) return 'over';
  res.statusCode = refusal.status;
  res.setHeader('Content-Type', 'application/json');
  if (refusal.status === 401) res.setHeader('WWW-Authenticate', 'DRS');
  res.end(JSON.stringify(body));
  return 'over';
}
