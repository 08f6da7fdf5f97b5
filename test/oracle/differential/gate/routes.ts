import { findRoute, type Found, type Route } from '../../gate.js';
import type { World } from '../targets.js';
import type { GateRequest } from './requests.js';

/** A world of gates: a table of routes decides over HTTP, or the body alone if there is none. */
export interface GateWorld extends World {
  readonly routes?: readonly Route[] | undefined;
}

/** Their tools are those of the generator's policies. */
export const ROUTES: readonly Route[] = [
  { method: 'POST', path: '/tools/search', tool: 'search' },
  { method: 'POST', path: '/tools/fetch', tool: 'fetch', command: '/tools' },
  { method: 'POST', path: '/tools/{tool_id}', tool: 'any' },
  { method: 'GET', path: '/items/latest', tool: 'search' },
  { method: 'GET', path: '/items/{name}', query: ['resource_uri', 'lines'], tool: 'search', command: '/x/y' },
  { method: 'HEAD', path: '/items/{name}', tool: 'search' },
  { method: 'DELETE', path: '/items/{name}', tool: 'delete', body: 'none' },
  { method: 'PUT', path: '/items/{name}/parts/{part}', query: ['resource_uri'], tool: 'any' },
  { method: 'POST', path: '/caf%C3%A9/{resource_uri}', tool: 'fetch', query: ['__proto__'] },
  { method: 'GET', path: '//{name}/', tool: 'any', body: 'json', query: ['query', 'constructor'] },
  { method: 'POST', path: '/', tool: 'constructor', body: 'none', query: ['query'] },
  { method: 'PATCH', path: '/{a}/{b}', tool: '*', command: '/x', query: ['lines'] },
];

/** What a framework with these routes finds, and what its handler takes; `undefined` if it has no route for a request. */
export function framework(
  routes: readonly Route[],
  { method, path }: Pick<GateRequest, 'method' | 'path'>,
): (Found & { readonly route: Route }) | undefined {
  const found = findRoute(routes, method, path);
  if (found === undefined) return undefined;
  const { route } = found;
  const [way = '', query = ''] = path.split('?', 2);
  const search = new URLSearchParams(query);
  const parts = way.split('/');
  const taken = route.path.split('/').flatMap((part, at): [string, string][] => {
    const name = /^\{(.*)\}$/.exec(part)?.[1];
    return name === undefined ? [] : [[name, decodeURIComponent(parts[at] ?? '')]];
  });
  for (const name of route.query ?? []) {
    const value = search.get(name);
    if (value !== null) taken.push([name, value]);
  }
  const { tool, command } = route;
  return { route, tool, ...(command !== undefined && { command }), parameters: Object.fromEntries(taken) };
}
