import { isEnvelope, unwrap } from '../gate/carriers.js';
import { gateFailure, type GateFailure } from '../gate/codes.js';
import { denyHttp, openHttp, withHttpBody } from '../gate/http.js';
import type { HttpRoute } from '../gate/routes.js';
import { readQuery } from '../gate/path.js';
import {
  shorten,
  type GateRequest,
  type Opening,
  type RequestBody,
  type RequestHead,
} from '../gate/request.js';
import type { CheckedRoute, RouteOptions } from './options.js';

/** The body of a request in a framework. */
export interface BodyAccess<Gone extends 'gone'> {
  /** Reads the body, which whoever reads it next finds again. At most once. */
  readonly read: () => Promise<RequestBody | Gone>;
  /** Gives a request that was read another body, of `application/json`. */
  readonly replace: (json: string) => void;
}

/**
 * Opens a request to the route that the operator's options describe. Its body is read last, and only if it is compared;
 * that of an envelope comes first, because the bundle is in it, and its handler gets what is inside.
 *
 * @returns `gone` if the client disconnects before its body is read
 * @throws TypeError if a function in the options does not return what it should; also any error that it throws
 */
export async function openRoute<R, Gone extends 'gone'>(
  request: RequestHead,
  /** What the framework has found in the path; anything but an object with members stands for nothing. */
  found: unknown,
  options: CheckedRoute<R>,
  subject: R,
  { read, replace }: BodyAccess<Gone>,
): Promise<Opening | Gone> {
  let sent: GateRequest = { ...request, body: { kind: 'unread' } };
  if (isEnvelope(request.headers)) {
    const body = await read();
    if (body === 'gone') return body;
    const inside = unwrap({ ...request, body });
    if ('code' in inside) return denyHttp(inside, null);
    sent = inside;
    if (inside.body.kind === 'value') replace(JSON.stringify(inside.body.value));
  }
  const route = routeOf(options, subject);
  const opened = openHttp({ ...sent, body: { kind: 'unread' } }, route);
  if (opened.kind === 'deny') return opened;
  if (options.bindingMode === 'off') return { ...opened, body: { kind: 'uncompared' } };
  const fault = unsignedPart(request.target, found, route);
  if (fault !== null) return denyHttp(fault, opened.requested);
  const body = sent.body.kind === 'unread' ? await read() : sent.body;
  return body === 'gone' ? body : withHttpBody(opened, body, route);
}

/** Why a handler could act on a part of path or query that is not compared with the signed arguments; `null` if it could not. */
function unsignedPart(target: string | null, found: unknown, { parameters }: HttpRoute): GateFailure | null {
  const mark = target?.indexOf('?') ?? -1;
  const query = readQuery(
    mark === -1 ? '' : (target?.slice(mark + 1) ?? ''),
    new Set(Object.keys(parameters ?? {})),
  );
  const [name] = parameters === null && typeof found === 'object' ? Object.keys(found ?? {}) : [];
  if (typeof query !== 'string' && name === undefined) return null;
  const inPath = `the path has the parameter ${JSON.stringify(shorten(name))}, which is not signed here`;
  return gateFailure('INVALID_PARAMS', 'http', typeof query === 'string' ? query : inPath, {
    suggestion:
      'Send the arguments in the body, or have the operator name those in path and query (the option parameters).',
  });
}

function routeOf<R>({ tool, command, parameters }: RouteOptions<R>, request: R): HttpRoute {
  return {
    tool: tool === 'any' ? null : ask('tool', tool, request),
    command: ask('command', command, request),
    parameters: parameters === undefined ? null : readParameters(parameters(request)),
    body: 'json',
  };
}

function readParameters(answer: unknown): Readonly<Record<string, string>> {
  if (typeof answer === 'object' && answer !== null) {
    const given = Object.entries(answer).filter(([, value]) => value !== undefined);
    if (given.every(([name, value]) => typeof value === 'string' && name !== 'tool'))
      return Object.fromEntries(given);
  }
  throw new TypeError(
    'the function parameters of the DRS options must give an object of strings, without a member named tool',
  );
}

function ask<R>(
  name: 'tool' | 'command',
  option: string | ((request: R) => string) | undefined,
  request: R,
): string | null {
  if (typeof option !== 'function') return option ?? null;
  const answer: unknown = option(request);
  if (typeof answer === 'string' && answer !== '') return answer;
  throw new TypeError(
    `the function ${name} of the DRS options gave ${String(answer)}, expected a non-empty string`,
  );
}

export function tooLarge(maxBytes: number): Extract<RequestBody, { kind: 'too large' }> {
  return { kind: 'too large', reason: `the body is larger than ${maxBytes} bytes (maxBodyBytes)` };
}
