import type { IncomingMessage } from 'node:http';
import { isJsonObject, parseStrictJson } from '../../protocol/json.js';
import { bodyOfCall, unusable, type CallBody } from '../call-body.js';
import { Gate } from '../gate.js';
import { refusalResponse, type RequestId } from '../json-rpc.js';
import { bodyOf, bundleHeaderOf, guardNode, refuse, type NodeMiddleware } from '../node.js';
import { bodyRulesOf, type ProtectionOptions } from '../options.js';

/** Options of {@link drsA2a}. The binding is always enforced, and the command is that of the method. */
export type A2aOptions = ProtectionOptions & {
  readonly command?: never;
  /** The largest request body, in bytes; default 1 MiB. */
  readonly maxBodyBytes?: number;
};

/** The command of an A2A method. */
export const A2A_COMMAND = '/a2a';

/**
 * Lets only verified JSON-RPC requests reach an A2A agent: every method is a call, with the command `/a2a/<method>`,
 * bound to `{ tool: method, ...params }`. To be put in front of the SDK's `jsonRpcHandler` and of every body parser.
 *
 * @returns middleware; a refused request gets the HTTP status and a JSON-RPC error with the verdict in `data`
 * @throws TypeError where the options contradict each other
 * @example
 * app.use('/a2a', drsA2a({ verifier, replayStore }), jsonRpcHandler({ requestHandler, userBuilder }));
 */
export function drsA2a(options: A2aOptions): NodeMiddleware {
  const gate = new Gate(options);
  const { maxBodyBytes } = bodyRulesOf(options);
  return (req, res, next) =>
    guardNode(gate, req, res, next, async () => {
      const opened = gate.open(bundleHeaderOf(req));
      if (opened.kind === 'absent') return 'absent';
      if (opened.kind === 'refused') {
        return refuse(res, opened.refusal, refusalResponse(null, opened.refusal));
      }
      const bytes = await bodyOf(req, res, maxBodyBytes);
      if (bytes === null) return 'over';
      const { id, method, body } = readCall(req, bytes);
      const judged = await gate.judge(
        opened,
        body,
        'enforced',
        method === null ? undefined : `${A2A_COMMAND}/${method}`,
      );
      if (judged.kind === 'admitted') return judged;
      return refuse(res, judged.refusal, refusalResponse(id, judged.refusal));
    });
}

interface Call {
  readonly id: RequestId | null;
  readonly method: string | null;
  readonly body: CallBody;
}

/** The call in a request body; one that is not exactly one JSON-RPC request binds to nothing. */
function readCall({ method: verb }: IncomingMessage, body: CallBody): Call {
  const none = (reason: string): Call => ({ id: null, method: null, body: unusable(reason) });
  if (body.kind !== 'text') return { id: null, method: null, body };
  if (verb !== 'POST') return none(`the HTTP method is ${verb ?? 'missing'}, expected POST`);
  const { value, defect } = parseStrictJson(body.text);
  if (defect) return none(`the body is not strict JSON: ${defect.message}`);
  if (Array.isArray(value)) return none('the body is a JSON-RPC batch, expected one request');
  if (!isJsonObject(value) || typeof value['method'] !== 'string')
    return none('the body is not a JSON-RPC request');
  const { id, method, params } = value;
  return {
    id: typeof id === 'string' || typeof id === 'number' ? id : null,
    method,
    body: bodyOfCall(method, params, 'params'),
  };
}
