import { BUNDLE_HEADER, MAX_HEADER_BUNDLE } from '../../gate/carriers.js';
import { shorten } from '../../gate/request.js';
import { a2aCallOf, type A2aCall } from '../../middleware/a2a/sign-requests.js';
import { DRS_EXTENSION } from '../../middleware/a2a/extension.js';
import type { Delegations, Refusal } from './delegations.js';
import type { McpSigner } from './mcp-signer.js';
import { idTextOf, messageOf, readJson, refusalLine } from './message.js';

/** What becomes of an HTTP request. */
export type HttpOutcome =
  | { readonly kind: 'pass' }
  | { readonly kind: 'signed'; readonly body: string; readonly headers: Readonly<Record<string, string>> }
  | { readonly kind: 'refused'; readonly status: number; readonly body: string };

/** Decides on an HTTP request. */
export type HttpSigner = (method: string, path: string, body: string) => Promise<HttpOutcome>;

const PASS = { kind: 'pass' } as const;

/** Signs requests to an MCP server. A refusal is an answer of status 200: to clients, another is a broken transport. */
export function mcpHttpSigner(signer: McpSigner): HttpSigner {
  return async (method, _path, body) => {
    if (method !== 'POST') return PASS;
    const outcome = await signer.signText(body);
    if (outcome.kind === 'refused') return { kind: 'refused', status: 200, body: outcome.answer };
    if (outcome.kind === 'pass') return PASS;
    const { text, bundle } = outcome;
    return {
      kind: 'signed',
      body: text,
      headers: bundle.length <= MAX_HEADER_BUNDLE ? { [BUNDLE_HEADER]: bundle } : {},
    };
  };
}

/** Signs requests to an A2A agent, over JSON-RPC and REST. */
export function a2aHttpSigner(delegations: Delegations): HttpSigner {
  return async (method, path, body) => {
    let call: A2aCall | null;
    try {
      call = a2aCallOf(method, path, body);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const suggestion = 'Change the request: the agent would refuse it as well.';
      return refused(body, { code: 'INVALID_PARAMS', detail: error.message, suggestion }, 400);
    }
    if (call === null) return PASS;
    const what = `the method ${JSON.stringify(shorten(call.args['tool']))}`;
    const bundle = await delegations.sign(call.command, call.args, what);
    if (typeof bundle !== 'string') return refused(body, bundle, 403);
    return { kind: 'signed', body, headers: { [BUNDLE_HEADER]: bundle, 'A2A-Extensions': DRS_EXTENSION } };
  };
}

/** In the form of the protocol: of JSON-RPC, if the request is. */
function refused(body: string, refusal: Refusal, status: number): HttpOutcome {
  const message = messageOf(body, readJson(body) ?? null);
  if (message?.method !== undefined)
    return { kind: 'refused', status: 200, body: refusalLine(idTextOf(message), refusal, status) };
  const { code, detail, suggestion } = refusal;
  return { kind: 'refused', status, body: JSON.stringify({ error: { code, message: detail, suggestion } }) };
}
