import type { GateContext } from '../../gate/context.js';
import { denied } from '../../gate/decide.js';
import { isPassMethod, type McpRules } from '../../gate/mcp.js';
import { MCP_COMMAND } from '../../gate/mcp-methods.js';
import type { Denial, Opening } from '../../gate/request.js';
import { elicitingError, responseTo, rpcError } from '../../gate/response.js';
import { callback, kindOf, type GivenOptions, type Table } from '../../protocol/options.js';
import { idInUse, TaskOwners } from '../../gate/task-owners.js';
import { runWithContext } from '../context.js';
import type { Outcome } from '../events.js';
import { Guard, type AdmittedCall } from '../guard.js';
import { checkProtection, PROTECTION, type ProtectionOptions } from '../options.js';
import { withAuthInfo } from './auth-info.js';
import { countMessage, openMessage, refuseBatched } from './open-call.js';
import { onConnect, type Connectable, type McpTransport, type Message, type RequestId } from './transport.js';

const MCP = {
  /**
   * Whether calls of a tool are checked; default: all. Calls of other tools pass without a context, even if they have a
   * bundle.
   */
  protect: { kind: callback<(name: string) => boolean>('a function of a tool name') },
  /**
   * Methods that pass besides those that always do, such as those of an extension. Nothing about them is checked. Requests with
   * other unknown methods are refused (`UNKNOWN_METHOD`), and notifications dropped.
   */
  passMethods: {
    kind: kindOf<readonly string[]>(
      "an array of names of methods such as 'acme/search', and not 'tools/call'",
      (value) => Array.isArray(value) && value.every(isPassMethod),
    ),
  },
} satisfies Table;

/** The options of {@link drsMcp} that others do not have. */
export interface McpMethodOptions extends GivenOptions<typeof MCP> {}

/** Options of {@link drsMcp}. The binding is always enforced, and the command is `/mcp/<method>`. */
export type McpOptions = ProtectionOptions & McpMethodOptions;

/** Protects MCP servers. Create it once, even if each client has its own server. */
export interface McpProtection {
  /**
   * Lets gated requests reach a server only if they are verified. Call it before `connect`.
   *
   * @param server a `McpServer` or `Server` of either SDK
   * @returns the same server
   * @throws Error if it is connected already
   */
  protectServer<S extends Connectable>(server: S): S;
}

/**
 * Verification for MCP servers of `@modelcontextprotocol/sdk` 1.x and `@modelcontextprotocol/server` 2.x, over any
 * transport. A refused call is answered with a JSON-RPC error, `code` -32010 and `data.code` the reason; a tool finds
 * its verified call with `drsContext()`, or in `authInfo`.
 *
 * @throws TypeError naming every problem with the options
 * @example
 * const replayStore = createMemoryReplayStore();
 * const drs = drsMcp({ verifier: createVerifier(), trustedRoots, serverIdentity, replayStore });
 * const server = drs.protectServer(new McpServer({ name: 'shop', version: '1.0.0' }));
 * await server.connect(new StdioServerTransport());
 */
export function drsMcp(given: McpOptions): McpProtection {
  const options = checkProtection(given, { ...PROTECTION, ...MCP });
  const guard = new Guard('mcp', options);
  const { protect, passMethods, serverIdentity } = options;
  const rules: McpRules = {
    serverIdentity: serverIdentity === 'any' ? null : serverIdentity,
    passMethods: new Set(passMethods),
    protect: (name) => protect === undefined || isProtected(name, protect, guard),
  };
  const tasks = new TaskOwners();
  return {
    protectServer: (server) => {
      onConnect(server, (transport) => guardTransport(guard, rules, tasks, transport));
      return server;
    },
  };
}

/** A tool is protected unless `protect` returns exactly `false`. */
function isProtected(name: string, protect: (name: string) => boolean, guard: Guard): boolean {
  try {
    return (protect(name) as unknown) !== false;
  } catch (error) {
    guard.report(error);
    return true;
  }
}

function isError(result: unknown): boolean {
  return typeof result === 'object' && result !== null && 'isError' in result && result.isError === true;
}

function declaresLinks(params: Message['params']): boolean {
  const { capabilities } = (params ?? {}) as { capabilities?: { elicitation?: { url?: unknown } } };
  const url = capabilities?.elicitation?.url;
  return typeof url === 'object' && url !== null;
}

/** An answer to a request of the server: nothing to check. */
const ANSWER: Opening = { kind: 'pass' };

/** Checks the calls of one connection, from their arrival to their answer. */
function guardTransport(guard: Guard, rules: McpRules, tasks: TaskOwners, transport: McpTransport): void {
  const { onmessage: deliver, onclose } = transport;
  const send = transport.send.bind(transport);
  /** By request id: calls that are being checked (`null`) or executed. */
  const open = new Map<RequestId, AdmittedCall | null>();

  /** Whether its client has said at `initialize` that it opens links: from MCP 2026-07-28 on, each request says so itself. */
  let opensLinks = false;

  /** Refuses with the message's own id. The gate's answer has `null` instead of a very long id. */
  function refuse(id: RequestId, denial: Denial): void {
    const { failure, elicits } = denial;
    const { body } = responseTo(denial, true);
    const errorOf = opensLinks && elicits === undefined ? elicitingError : rpcError;
    const answer = 'result' in body ? { result: body.result } : { error: errorOf(failure) };
    send({ jsonrpc: '2.0', id, ...answer }).catch((error: unknown) => guard.report(error));
  }

  /**
   * Ends a call that was executed: it is answered or cancelled, or its connection has ended.
   *
   * @returns the context of the call, if there was one
   */
  function settle(id: RequestId, outcome: Outcome): GateContext | undefined {
    const admission = open.get(id);
    open.delete(id);
    admission?.finish(outcome);
    return admission?.context;
  }

  async function check(id: RequestId, message: Message, opened: Opening, extra: unknown) {
    const decision = await guard.admit(
      await refuseBatched(opened, extra),
      ({ root_principal }) => tasks.findFailure(message, root_principal),
      () => open.has(id),
    );
    if (decision.kind !== 'pass') return decision;
    // No bundle, and none is required: but nobody reads another one's task.
    const failure = tasks.findFailure(message, null);
    if (failure === null) return decision;
    return guard.refuse(denied({ protocol: 'mcp', id: null, requested: message.method ?? null }, failure));
  }

  function receive(message: Message, opened: Opening, extra: unknown): void {
    const { id } = message;
    // Drop what is refused and is no request: it has no answer and so cannot be refused.
    if (id === undefined || deliver === undefined) return;
    open.set(id, null);
    check(id, message, opened, extra)
      .then((decision) => {
        // Cancelled, or the client has disconnected.
        if (!open.has(id)) return;
        open.delete(id);
        if (decision.kind === 'deny') refuse(id, decision);
        else if (decision.kind === 'pass') runWithContext(null, null, () => deliver(message, extra));
        else {
          const { context } = decision;
          open.set(id, decision);
          runWithContext(context, null, () => deliver(message, withAuthInfo(extra, context)));
        }
      })
      .catch((error: unknown) => guard.report(error));
  }

  transport.onmessage = (message, extra) => {
    countMessage(extra);
    const { id, method } = message;
    if (method !== undefined && id !== undefined && open.has(id)) {
      // Checked or not: the answers could not be told apart.
      const refused = guard.refuse(denied({ protocol: 'mcp', id, requested: null }, idInUse(id)));
      if (refused.kind === 'deny') refuse(id, refused);
      return;
    }
    if (method === 'initialize') opensLinks = declaresLinks(message.params);
    const opened = method === undefined ? ANSWER : openMessage(message, extra, rules);
    if (opened.kind !== 'pass') {
      receive(message, opened, extra);
      return;
    }
    if (method === 'notifications/cancelled') settle(message.params?.['requestId'] as RequestId, 'cancelled');
    runWithContext(null, null, () => deliver?.(message, extra));
  };
  transport.send = async (message, options) => {
    if (message.method === undefined && message.id !== undefined) {
      const hasFailed = message.error !== undefined || isError(message.result);
      const context = settle(message.id, hasFailed ? 'error' : 'ok');
      if (context?.command === MCP_COMMAND) tasks.record(message.result, context.root_principal);
    }
    await send(message, options);
  };
  transport.onclose = () => {
    for (const id of open.keys()) settle(id, 'cancelled');
    onclose?.();
  };
}
