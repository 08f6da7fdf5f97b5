import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import {
  bodyOfValue,
  BUNDLE_HEADER,
  decodeCarried,
  findBundle,
  isEnvelope,
  unusable,
  unwrap,
} from './carriers.js';
import { gateFailure, type GateFailure } from './codes.js';
import {
  methodOf,
  shorten,
  type CallBody,
  type Denial,
  type GateRequest,
  type PendingCall,
  type RequestBody,
} from './request.js';
import type { HttpRoute, RouteTable } from './routes.js';

/** A route of any command and tool, of which only the body is compared. */
export const ANY_ROUTE: HttpRoute = { command: null, tool: null, parameters: null, body: 'json' };

/**
 * Opens a plain HTTP request by the operator's routes. Every request is checked.
 *
 * @param routes `any`: no part of the request but its body is compared; `null`: none is configured, so all are refused
 */
export function openRouted(request: GateRequest, routes: RouteTable | 'any' | null): PendingCall | Denial {
  if (routes === 'any') return openHttp(request, ANY_ROUTE);
  if (routes === null) {
    const message = 'this gate has no routes: the operator sets GATE_ROUTES to a file of them, or to "any"';
    return denyHttp(gateFailure('UNKNOWN_ROUTE', 'http', message), null);
  }
  const found = routes.find(methodOf(request), request.target);
  if ('code' in found) {
    const failure = gateFailure(found.code, 'http', found.message);
    if (found.code === 'UNKNOWN_ROUTE' || isEnvelope(request.headers)) return denyHttp(failure, null);
    // As in middleware: a request without a readable bundle is refused for that first.
    const bare = openHttp({ ...request, body: { kind: 'unread' } }, ANY_ROUTE);
    return bare.kind === 'deny' ? bare : denyHttp(failure, null);
  }
  const opened = found.body === 'envelope' ? unwrap(request) : request;
  return 'code' in opened ? denyHttp(opened, found.tool) : openHttp(opened, found);
}

/**
 * Opens a plain HTTP request. Every request is checked, and what its handler acts on is compared with the signed
 * arguments.
 *
 * A transport can pass the body as `unread` first and add it with {@link withHttpBody}. Then it need not read the
 * body of a request that has no bundle.
 */
export function openHttp(request: GateRequest, route: HttpRoute): PendingCall | Denial {
  const { tool, command } = route;
  const method = methodOf(request);
  if (method !== request.method) {
    const message = `the HTTP method is ${shorten(method)}, expected one`;
    return denyHttp(gateFailure('METHOD_NOT_ALLOWED', 'http', message), tool);
  }
  const { headers, carried } = request;
  const inEnvelope = carried === undefined ? undefined : { [BUNDLE_HEADER]: carried };
  const encoded = findBundle('http', headers, inEnvelope, () => ({
    message: `no ${BUNDLE_HEADER} header${isEnvelope(headers) ? ', and this route takes no envelopes' : ''}`,
  }));
  if (typeof encoded !== 'string') return denyHttp(encoded, tool);
  const decoded = decodeCarried('http', encoded);
  if ('code' in decoded) return denyHttp(decoded, tool);
  const call = {
    kind: 'check',
    protocol: 'http',
    id: null,
    bundle: decoded.bundle,
    encoded,
    requested: tool,
    expected: { command, orBelow: true, tool },
    approve: route.approve,
  } as const;
  return withHttpBody(call, request.body, route);
}

/** Adds the body to a call that was opened without one. */
export function withHttpBody(
  call: Omit<PendingCall, 'body'>,
  body: RequestBody,
  route: HttpRoute,
): PendingCall | Denial {
  if (body.kind === 'too large') {
    return denyHttp(gateFailure('BODY_TOO_LARGE', 'http', body.reason), call.requested);
  }
  const compared = route.parameters === null ? bodyAlone(body) : argumentsOf(body, route, route.parameters);
  return 'kind' in compared ? { ...call, body: compared } : denyHttp(compared, call.requested);
}

type SmallBody = Exclude<RequestBody, { readonly kind: 'too large' }>;

function bodyAlone(body: SmallBody): CallBody {
  if (body.kind === 'none') return { kind: 'value', value: {} };
  return body.kind === 'value' ? bodyOfValue(body.value) : body;
}

/** The arguments of a call: those in path and query, the members of its body, and the tool that its route serves. */
function argumentsOf(
  body: SmallBody,
  { tool, body: kind }: HttpRoute,
  parameters: Readonly<Record<string, string>>,
): CallBody | GateFailure {
  const read = readMembers(body, kind !== 'none');
  if (!('members' in read)) return read;
  const { members } = read;
  const twice = Object.keys(parameters).find((name) => Object.hasOwn(members, name));
  if (twice !== undefined) {
    const message = `the body has a member named ${JSON.stringify(twice)}, which is in the path or the query`;
    return gateFailure('RESERVED_ARGUMENT', 'http', message, {
      suggestion: 'Send each argument in one place.',
    });
  }
  // Callers that put the tool into the body sign the same arguments. Whether it is the route's is checked later.
  const value = { ...(tool === null ? {} : { tool }), ...parameters, ...members };
  // A text was read here, strictly: none of its numbers was rounded.
  return body.kind === 'text' ? { kind: 'value', value } : bodyOfValue(value);
}

/** The members of a body, or the body if it has none that could be arguments. */
function readMembers(body: SmallBody, hasBody: boolean): { readonly members: JsonObject } | CallBody {
  const { kind } = body;
  if (kind === 'none' || (kind === 'text' && body.text === '' && !hasBody)) return { members: {} };
  if (kind !== 'text' && kind !== 'value') return body;
  if (!hasBody) return unusable('the request has a body, and its route takes none');
  const { value, defect = null } = kind === 'text' ? parseStrictJson(body.text) : { value: body.value };
  if (defect !== null) return unusable(`the body is not strict JSON: ${defect.message}`);
  return isJsonObject(value) ? { members: value } : unusable('the body is not a JSON object');
}

export function denyHttp(failure: Denial['failure'], requested: string | null): Denial {
  return { kind: 'deny', protocol: 'http', id: null, requested, failure };
}
