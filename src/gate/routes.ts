import { isCommandPath } from '../protocol/claims.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import type { Expectation } from './request.js';
import { isParameterName, readQuery, segmentsOf, splitPath } from './path.js';

/** The most routes of a table; a request is compared with those of its method. */
const MAX_ROUTES = 1000;

/** What an HTTP route accepts, and what its handler acts on. */
export interface HttpRoute extends Pick<Expectation, 'command' | 'tool'> {
  /**
   * The arguments in path and query, by name. `null` if the body alone is compared, as it is: nothing in path and query
   * is an argument.
   */
  readonly parameters: Readonly<Record<string, string>> | null;
  /** What the handler reads; `envelope` is JSON, too. */
  readonly body: 'json' | 'envelope' | 'none';
  /** Whether each call needs a person's yes; default `false`. */
  readonly approve?: boolean | undefined;
}

interface Route {
  readonly method: string;
  readonly path: string;
  /** The segments of the path; of a parameter its name. */
  readonly segments: readonly { readonly text: string; readonly isParameter: boolean }[];
  readonly tool: string | null;
  readonly command: string | null;
  readonly query: ReadonlySet<string>;
  readonly body: HttpRoute['body'];
  readonly approve: boolean | undefined;
}

/** A request that no route serves, or whose parameters cannot be read. */
export interface NoRoute {
  readonly code: 'UNKNOWN_ROUTE' | 'INVALID_PARAMS';
  readonly message: string;
}

/**
 * The routes of an HTTP tool server: which tool each serves, and which parts of its path and query are arguments.
 * `docs/spec/gate.md` describes the file.
 */
export class RouteTable {
  readonly #byMethod = new Map<string, Route[]>();

  /**
   * Reads a table.
   *
   * @param text the file
   * @throws Error that names every problem with it
   * @example RouteTable.parse('{"routes":[{"method":"GET","path":"/files/{name}","tool":"read_file"}]}');
   */
  static parse(text: string): RouteTable {
    const { value, defect } = parseStrictJson(text);
    if (defect !== undefined) throw new Error(`it is not strict JSON: ${defect.message}`);
    const routes = isJsonObject(value) && Object.keys(value).join() === 'routes' ? value['routes'] : null;
    if (!Array.isArray(routes)) throw new Error('it is not {"routes": […]}');
    if (routes.length > MAX_ROUTES)
      throw new Error(`it has ${routes.length} routes, expected at most ${MAX_ROUTES}`);
    const problems: string[] = [];
    const table = new RouteTable();
    for (const [at, given] of routes.entries()) {
      const read = readRoute(given);
      if (Array.isArray(read)) problems.push(...read.map((problem) => `routes[${at}]: ${problem}`));
      else {
        const hider = table.#routesOf(read.method).find((earlier) => hides(earlier, read));
        if (hider === undefined) table.#routesOf(read.method).push(read);
        else problems.push(`routes[${at}]: no request reaches it, since ${hider.path} stands before it`);
      }
    }
    if (problems.length > 0) throw new Error(problems.join('\n'));
    return table;
  }

  /**
   * Finds the route of a request: the first with its method and its path.
   *
   * @param path path and query as the caller sent them; `null` if they are not known
   * @example table.find('GET', '/files/a.txt'); // { tool: 'read_file', parameters: { name: 'a.txt' }, … }
   */
  find(method: string, path: string | null): HttpRoute | NoRoute {
    if (path === null)
      return unknown('the path of the request is not known: have the proxy send it, in one form');
    const split = splitPath(path);
    if (split === null) return unknown('servers could read different paths from the path of this request');
    const route = this.#byMethod.get(method)?.find((candidate) => serves(candidate, split.segments));
    if (route === undefined) return unknown('no route has the method and path of this request');
    const parameters = readQuery(split.query ?? '', route.query);
    if (typeof parameters === 'string') return { code: 'INVALID_PARAMS', message: parameters };
    for (const [at, { text, isParameter }] of route.segments.entries())
      if (isParameter) parameters[text] = decodeURIComponent(split.segments[at] ?? '');
    const { tool, command, body, approve } = route;
    return { tool, command, parameters, body, approve };
  }

  #routesOf(method: string): Route[] {
    let routes = this.#byMethod.get(method);
    if (routes === undefined) this.#byMethod.set(method, (routes = []));
    return routes;
  }
}

const unknown = (message: string): NoRoute => ({ code: 'UNKNOWN_ROUTE', message });

function serves({ segments: wanted }: Route, segments: readonly string[]): boolean {
  return (
    wanted.length === segments.length &&
    wanted.every(({ text, isParameter }, at) => (isParameter ? segments[at] !== '' : segments[at] === text))
  );
}

/** Whether every request of a route goes to an earlier one. */
function hides(earlier: Route, { segments }: Route): boolean {
  return (
    earlier.segments.length === segments.length &&
    earlier.segments.every(({ text, isParameter }, at) => {
      const own = segments[at];
      return isParameter ? own?.text !== '' : own?.isParameter === false && own.text === text;
    })
  );
}

const METHOD = /^[A-Z]{1,20}$/;

/** Reads one route. An array names its problems. */
function readRoute(given: unknown): Route | string[] {
  if (!isJsonObject(given)) return ['it is not an object'];
  const { method, path, tool, command = null, query = [], body, approve } = given;
  const problems = Object.keys(given)
    .filter((name) => !MEMBERS.includes(name))
    .map((name) => `${JSON.stringify(name)} is none of ${MEMBERS.join(', ')}`);
  const expect = (isFine: boolean, what: string) => {
    if (!isFine) problems.push(`expected ${what}`);
  };
  expect(typeof method === 'string' && METHOD.test(method), 'method, such as "POST"');
  expect(typeof tool === 'string' && tool !== '', 'tool: its name, or "any"');
  expect(command === null || isCommandPath(command), 'command to be a path such as "/files/read"');
  const isKnown = body === undefined || body === 'json' || body === 'envelope' || body === 'none';
  expect(isKnown, 'body to be "json", "envelope" or "none"');
  expect(['boolean', 'undefined'].includes(typeof approve), 'approve to be true or false');
  const segments = typeof path === 'string' ? readTemplate(path) : null;
  expect(segments !== null, 'path, such as "/files/{name}", as clients send it, without a query');
  const isList =
    Array.isArray(query) && query.every((name) => typeof name === 'string' && isParameterName(name));
  expect(isList, 'query to be an array of names of letters, digits, "_" and "-"');
  const names = [
    ...(segments ?? []).filter(({ isParameter }) => isParameter).map(({ text }) => text),
    ...(isList ? (query as string[]) : []),
  ];
  expect(new Set(names).size === names.length, 'parameters with different names');
  expect(!names.includes('tool'), 'no parameter named tool, which stands for the tool that is called');
  if (problems.length > 0 || segments === null) return problems;
  return {
    method: method as string,
    path: path as string,
    segments,
    tool: tool === 'any' ? null : (tool as string),
    command: command as string | null,
    query: new Set(query as string[]),
    body: (body ?? (method === 'GET' || method === 'HEAD' ? 'none' : 'json')) as Route['body'],
    approve: approve as Route['approve'],
  };
}

const MEMBERS: readonly string[] = ['method', 'path', 'tool', 'command', 'query', 'body', 'approve'];

function readTemplate(path: string): Route['segments'] | null {
  const segments = path
    .slice(1)
    .split('/')
    .map((text) =>
      text.startsWith('{') && text.endsWith('}')
        ? { text: text.slice(1, -1), isParameter: true }
        : { text, isParameter: false },
    );
  if (!segments.every(({ text, isParameter }) => !isParameter || isParameterName(text))) return null;
  // With any value in place of its parameters, it must be a path that a request can have.
  const sample = segments.map(({ text, isParameter }) => (isParameter ? 'x' : text));
  return path.startsWith('/') && segmentsOf(`/${sample.join('/')}`) !== null ? segments : null;
}
