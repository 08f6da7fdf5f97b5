import { encode, liveCall, liveChain } from '../middleware/call.js';

/** A table of routes, and calls over HTTP with what a gate with these routes says of each. */

export const ROUTES = {
  routes: [
    { method: 'POST', path: '/tools/read_file', tool: 'read_file' },
    { method: 'DELETE', path: '/tools/{tool_name}', tool: 'delete_file', query: ['recursive'], body: 'none' },
    { method: 'GET', path: '/files/latest', tool: 'read_file', command: '/files/read' },
    { method: 'GET', path: '/files/{name}', tool: 'read_file', query: ['revision', 'lines'] },
    { method: 'POST', path: '/any', tool: 'any' },
  ],
};

const tools = ['read_file', 'delete_file', 'rm', 'x', 'new'];
const chain = liveChain(2, { cmd: '/files', policy: { allowed_tools: tools } });
export const bundleFor = (args: object, cmd = '/files/read') => encode(liveCall(chain, args, { cmd }));

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly args: object;
  readonly cmd?: string;
}

export const CALLS: readonly (Call & { readonly name: string; readonly code: string })[] = [
  {
    name: 'the signed call',
    ...{ method: 'POST', path: '/tools/read_file', body: { path: '/a' }, code: 'allow' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'a body that has the tool itself',
    ...{ method: 'POST', path: '/tools/read_file', body: { tool: 'read_file', path: '/a' }, code: 'allow' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'a call that was signed for another tool, on the path of this one',
    ...{ method: 'DELETE', path: '/tools/delete?recursive=true', code: 'TOOL_MISMATCH' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'a path parameter and a query',
    ...{ method: 'DELETE', path: '/tools/x?recursive=true', code: 'allow' },
    args: { tool: 'delete_file', tool_name: 'x', recursive: 'true' },
  },
  {
    name: 'a query that is not signed',
    ...{ method: 'DELETE', path: '/tools/x?recursive=true', code: 'BINDING_MISMATCH' },
    args: { tool: 'delete_file', tool_name: 'x' },
  },
  {
    name: 'another path parameter',
    ...{ method: 'DELETE', path: '/tools/y', code: 'BINDING_MISMATCH' },
    args: { tool: 'delete_file', tool_name: 'x' },
  },
  {
    name: 'a body where the route takes none',
    ...{ method: 'DELETE', path: '/tools/x', body: { force: true }, code: 'BINDING_MISMATCH' },
    args: { tool: 'delete_file', tool_name: 'x', force: true },
  },
  {
    name: 'a body that has a member named tool of another tool',
    ...{ method: 'POST', path: '/tools/read_file', body: { tool: 'rm', path: '/a' }, code: 'TOOL_MISMATCH' },
    args: { tool: 'rm', path: '/a' },
  },
  {
    name: 'a path that no route has',
    ...{ method: 'POST', path: '/tools/delete_everything', body: { path: '/a' }, code: 'UNKNOWN_ROUTE' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'an unknown query',
    ...{ method: 'POST', path: '/tools/read_file?as=root', body: { path: '/a' }, code: 'INVALID_PARAMS' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'another command than that of the route',
    ...{ method: 'GET', path: '/files/latest', code: 'COMMAND_MISMATCH', cmd: '/files/write' },
    args: { tool: 'read_file' },
  },
  {
    name: 'a request without a body',
    ...{ method: 'GET', path: '/files/latest', code: 'allow' },
    args: { tool: 'read_file' },
  },
  {
    name: 'a route of any tool',
    ...{ method: 'POST', path: '/any', body: { tool: 'x', a: 1 }, code: 'allow' },
    args: { tool: 'x', a: 1 },
  },
];
