import {
  gateFailure,
  openHttp,
  type Denial,
  type GateRequest,
  type HttpRoute,
  type PendingCall,
} from '../gate/index.js';
import type { BodyOptions, RouteOptions } from './options.js';

/**
 * Opens a request to the route that the operator's options describe, without its body.
 *
 * @returns the opened request, and what `withHttpBody` needs to add the body
 * @throws TypeError if a function in the options does not return what it should; also any error that it throws
 */
export function openRoute<R>(
  request: Omit<GateRequest, 'body'>,
  options: RouteOptions<R> & BodyOptions,
  subject: R,
): { readonly opened: PendingCall | Denial; readonly route: HttpRoute } {
  const route = routeOf(options, subject);
  const opened = openHttp({ ...request, body: { kind: 'unread' } }, route);
  const isBound = (options.bindingMode ?? 'enforced') === 'enforced';
  if (opened.kind === 'deny' || !isBound || route.parameters !== null || request.path?.includes('?') !== true)
    return { opened, route };
  const message = 'the request has a query, and nothing in the query is signed here';
  const failure = gateFailure('INVALID_PARAMS', 'http', message, {
    suggestion:
      'Send the arguments in the body, or have the operator name those in the query (the option parameters).',
  });
  const denial: Denial = { kind: 'deny', protocol: 'http', id: null, requested: opened.requested, failure };
  return { opened: denial, route };
}

function routeOf<R>({ tool, command, parameters }: RouteOptions<R>, request: R): HttpRoute {
  return {
    tool: tool === 'any' ? null : ask('tool', tool, request),
    command: ask('command', command, request),
    parameters: parameters === undefined ? null : readParameters(parameters(request)),
    hasBody: true,
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
