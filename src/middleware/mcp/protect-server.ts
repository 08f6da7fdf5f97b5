import { runWithContext } from '../context.js';
import { Gate, type Admission } from '../gate.js';
import { refusalResponse, type RequestId } from '../json-rpc.js';
import type { ProtectionOptions } from '../options.js';
import type { Refusal } from '../refusal.js';
import { countMessage, judgeToolCall, TOOLS_CALL } from './call.js';
import { protectHandler } from './protect-handler.js';
import { onConnect, type Connectable, type McpTransport, type Message } from './transport.js';

/** Options of {@link drsMcp}. The binding is always enforced, and the command is `/mcp/tools/call`. */
export type McpOptions = ProtectionOptions & { readonly command?: never };

/** Protects MCP servers; to be made once, also where each client has a server of its own. */
export interface McpProtection {
  /**
   * Lets only verified `tools/call` requests reach a server; other methods pass. To be called before `connect`.
   *
   * @param server a `McpServer` or `Server` of either SDK
   * @returns the same server
   * @throws Error where it is connected already
   */
  protectServer<S extends Connectable>(server: S): S;
  /**
   * Wraps a handler for `server.setRequestHandler`, of `CallToolRequestSchema` (1.x) or `'tools/call'` (2.x). Not for
   * the callbacks of `registerTool`: those get arguments that a schema has already changed, and no tool name.
   */
  protectHandler: <Q extends { params: object }, X, R>(
    handler: (request: Q, extra: X) => R | Promise<R>,
  ) => (request: Q, extra: X) => Promise<R>;
}

/**
 * Verification for MCP servers of `@modelcontextprotocol/sdk` 1.x and `@modelcontextprotocol/server` 2.x, over any
 * transport. A refused call is answered with a JSON-RPC error, `code` the HTTP status and `data` the verdict; a tool
 * finds its verified call with `drsContext()`.
 *
 * @throws TypeError where the options contradict each other
 * @example
 * const drs = drsMcp({ verifier: createVerifier(), replayStore: createMemoryReplayStore() });
 * await drs.protectServer(new McpServer({ name: 'shop', version: '1.0.0' })).connect(new StdioServerTransport());
 */
export function drsMcp(options: McpOptions): McpProtection {
  const gate = new Gate(options);
  return {
    protectServer: (server) => {
      onConnect(server, (transport) => new GuardedTransport(gate, transport).install());
      return server;
    },
    protectHandler: (handler) => protectHandler(gate, handler),
  };
}

/** The calls of one connection, from their arrival to their answer. */
class GuardedTransport {
  readonly #gate: Gate;
  readonly #transport: McpTransport;
  readonly #send: McpTransport['send'];
  /** By request id: calls that are being judged (`null`) or executed. */
  readonly #open = new Map<RequestId, Admission | null>();

  constructor(gate: Gate, transport: McpTransport) {
    this.#gate = gate;
    this.#transport = transport;
    this.#send = transport.send.bind(transport);
  }

  install(): void {
    const transport = this.#transport;
    const { onmessage: deliver, onclose } = transport;
    transport.onmessage = (message, extra) => {
      countMessage(extra);
      if (message.method === TOOLS_CALL) this.#receive(message, extra, deliver);
      else {
        if (message.method === 'notifications/cancelled')
          this.#settle(message.params?.['requestId'] as RequestId);
        runWithContext(null, null, () => deliver?.(message, extra));
      }
    };
    transport.send = async (message, options) => {
      if (message.method === undefined && message.id !== undefined) this.#settle(message.id);
      await this.#send(message, options);
    };
    transport.onclose = () => {
      for (const id of [...this.#open.keys()]) this.#settle(id);
      onclose?.();
    };
  }

  #receive(message: Message, extra: unknown, deliver: McpTransport['onmessage']): void {
    const { id, params } = message;
    // A notification has no answer, and so cannot be refused; no handler of the SDKs would serve it either.
    if (id === undefined || deliver === undefined) return;
    if (this.#open.has(id)) {
      const error = `the request id ${JSON.stringify(id)} is in use: the answers could not be told apart`;
      this.#refuse(id, { status: 400, body: { error, code: 'MALFORMED_BUNDLE' } });
      return;
    }
    this.#open.set(id, null);
    judgeToolCall(this.#gate, params, extra)
      .then((judged) => {
        // Cancelled, or the client has gone.
        if (!this.#open.has(id)) return;
        if (judged.kind === 'admitted') {
          this.#open.set(id, judged);
          runWithContext(judged.context, null, () => deliver(message, extra));
          return;
        }
        this.#open.delete(id);
        if (judged.kind === 'refused') this.#refuse(id, judged.refusal);
        else runWithContext(null, null, () => deliver(message, extra));
      })
      .catch((error: unknown) => this.#gate.report(error));
  }

  /** A call is over: answered, cancelled, or cut off with the connection. Whichever it was, it was executed. */
  #settle(id: RequestId): void {
    const admission = this.#open.get(id);
    this.#open.delete(id);
    if (admission) this.#gate.publish(admission);
  }

  #refuse(id: RequestId, refusal: Refusal): void {
    this.#send(refusalResponse(id, refusal)).catch((error: unknown) => this.#gate.report(error));
  }
}
