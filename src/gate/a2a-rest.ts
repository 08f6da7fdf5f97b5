import { isJsonObject, type JsonObject } from '../protocol/json.js';
import { readQuery, splitPath, type SplitPath } from './path.js';
import { shown } from './request.js';

/** The REST binding of A2A: what method, path and query of a request say. Signers and gates use the same functions. */

/** A call over REST. Its query has not been read. */
export interface RestCall {
  readonly kind: 'rest';
  /** The method of A2A. */
  readonly method: string;
  /** What stands before the verb in the path, as it was sent; empty if nothing does. */
  readonly prefix: string;
  /** The parameters in the path, decoded. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Whether a body that did not come to the gate means that there is none. */
  readonly mayBeBare: boolean;
  /** As it was sent. */
  readonly query: string;
}

/** What a request to an A2A agent is, by its method and path. */
export type A2aTarget =
  | RestCall
  | { readonly kind: 'card' }
  | { readonly kind: 'json-rpc' }
  /** Neither a call nor public. */
  | { readonly kind: 'none' }
  /** Servers could read the path in two ways. */
  | { readonly kind: 'invalid'; readonly reason: string };

/** The members of the signed arguments that are not the call's own, over JSON-RPC and REST: a call of one is none of the other. */
export const RESERVED_ARGUMENTS: readonly string[] = ['tool', 'path'];

/** Words that no other path has, in lower case: some servers match them in any case. */
const WORDS: ReadonlySet<string> = new Set(['tasks', 'pushnotificationconfigs', 'extendedagentcard']);

/** The verbs, by the end of the path. Names of A2A 1.0; the last one is of 0.3. */
const VERBS = [
  verb('POST', 'message:send', 'SendMessage', 'body'),
  verb('POST', 'message:stream', 'SendStreamingMessage', 'body'),
  verb('GET', 'tasks', 'ListTasks'),
  verb('GET', 'tasks/{id}', 'GetTask'),
  verb('POST', 'tasks/{id}:cancel', 'CancelTask'),
  verb('GET', 'tasks/{id}:subscribe', 'SubscribeToTask'),
  verb('POST', 'tasks/{id}:subscribe', 'SubscribeToTask'),
  verb('POST', 'tasks/{taskId}/pushNotificationConfigs', 'CreateTaskPushNotificationConfig', 'body'),
  verb('GET', 'tasks/{taskId}/pushNotificationConfigs', 'ListTaskPushNotificationConfigs'),
  verb('GET', 'tasks/{taskId}/pushNotificationConfigs/{id}', 'GetTaskPushNotificationConfig'),
  verb('DELETE', 'tasks/{taskId}/pushNotificationConfigs/{id}', 'DeleteTaskPushNotificationConfig'),
  verb('GET', 'extendedAgentCard', 'GetExtendedAgentCard'),
  verb('GET', 'v1/card', 'GetExtendedAgentCard'),
] as const;

function verb(httpMethod: string, end: string, method: string, needs?: 'body') {
  const segments = end.split('/');
  return {
    httpMethod,
    method,
    segments: segments.length,
    words: segments.filter(isWord).length,
    mayBeBare: needs === undefined,
    /** Matches the last segments. */
    end: new RegExp(`^${end.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/:]+)')}$`),
  };
}

/**
 * Finds out what a request is. Linear in the length of the path.
 *
 * @param path with its query; `null` if it is not known
 * @example targetOf('GET', '/rest/tasks/7'); // { kind: 'rest', method: 'GetTask', prefix: '/rest', … }
 */
export function targetOf(httpMethod: string, path: string | null): A2aTarget {
  if (path === null) {
    const remedy = 'have the proxy append it to the URL of the gate, or send it in X-Original-Uri alone';
    return invalid(`the path of the request is not known: ${remedy}`);
  }
  const split = splitPath(path);
  if (split === null || split.segments.slice(0, -1).includes(''))
    return invalid('servers could read different paths from the path of this request');
  const { segments: raw, query } = split;
  const segments = raw.map((segment) => decodeURIComponent(segment));
  if (/^(?:GET|HEAD)$/.test(httpMethod) && query === null && CARD.test(raw.slice(-2).join('/')))
    return { kind: 'card' };

  const words = segments.filter(isWord).length;
  const rest = restTargetOf(httpMethod, split, words);
  if (rest !== null) return rest;
  const last = segments.findLast((segment) => segment !== '') ?? '';
  if (httpMethod !== 'POST' || words > 0 || last.includes(':')) return NONE;
  return query === null
    ? { kind: 'json-rpc' }
    : invalid('the path has a query, which is not signed over JSON-RPC');
}

/** What a path with a verb of the REST binding asks for; `null` if it has none. */
function restTargetOf(
  httpMethod: string,
  { segments: raw, query }: SplitPath,
  words: number,
): A2aTarget | null {
  for (const row of VERBS) {
    if (row.httpMethod !== httpMethod || row.words !== words) continue;
    const found = row.end.exec(raw.slice(-row.segments).join('/'));
    if (found === null) continue;
    const parameters: Record<string, string> = {};
    for (const [name, value] of Object.entries(found.groups ?? {})) {
      const decoded = decodeURIComponent(value);
      // Some servers decode the path before they look for a verb in it.
      if (decoded.includes(':')) return NONE;
      parameters[name] = decoded;
    }
    const prefix = raw.slice(0, -row.segments);
    return {
      kind: 'rest',
      method: row.method,
      prefix: prefix.length === 0 ? '' : `/${prefix.join('/')}`,
      parameters,
      mayBeBare: row.mayBeBare,
      query: query ?? '',
    };
  }
  return null;
}

export interface ArgumentsDefect {
  readonly code: 'INVALID_PARAMS' | 'RESERVED_ARGUMENT';
  readonly reason: string;
}

/**
 * The arguments of a call over REST in the form that is signed.
 *
 * @param body the parsed body; `undefined` or `null` if there is none
 */
export function restArguments(
  { method, prefix, parameters, query }: RestCall,
  body: unknown,
): { readonly args: JsonObject } | ArgumentsDefect {
  if (body !== undefined && body !== null && !isJsonObject(body))
    return defect('the body is not a JSON object');
  const parts = readQuery(query, null);
  if (typeof parts === 'string') return defect(parts);
  const members = body ?? {};
  for (const [name, value] of [...Object.entries(parameters), ...Object.entries(parts)]) {
    // The path's own parameters may come again in query and body: some clients send them so.
    const isOther = (place: Readonly<Record<string, unknown>>) =>
      Object.hasOwn(place, name) && place[name] !== value;
    if (isOther(parts) || isOther(members)) return reserved(`${shown(name)} comes with two values`);
  }
  for (const name of RESERVED_ARGUMENTS)
    if ([parameters, parts, members].some((place) => Object.hasOwn(place, name)))
      return reserved(`there is a member or parameter ${shown(name)}`);
  // One copy, and not by assignment: there may be 30,000 members, and one may be named __proto__.
  return {
    args: { ...parameters, ...parts, ...members, tool: method, ...(prefix === '' ? {} : { path: prefix }) },
  };
}

const CARD = /^\.well-known\/agent(?:-card)?\.json$/;
const NONE: A2aTarget = { kind: 'none' };

function isWord(segment: string): boolean {
  // Upper case, then lower case: see findLookalike().
  return WORDS.has(segment.toUpperCase().toLowerCase());
}

const invalid = (reason: string): A2aTarget => ({ kind: 'invalid', reason });
const defect = (reason: string): ArgumentsDefect => ({ code: 'INVALID_PARAMS', reason });
const reserved = (reason: string): ArgumentsDefect => ({ code: 'RESERVED_ARGUMENT', reason });
