export type RequestId = string | number;

/** The members of a JSON-RPC message that are read here. */
export interface Message {
  readonly jsonrpc: '2.0';
  readonly id?: RequestId;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: unknown;
  readonly error?: unknown;
}

export interface McpTransport {
  start(): Promise<void>;
  send(message: Message, options?: unknown): Promise<void>;
  onmessage?: (message: Message, extra?: unknown) => void;
  onclose?: () => void;
}

/** The common interface of both SDKs' `Client`, `Server` and `McpServer`. */
export interface Connectable {
  connect(transport: never, ...rest: never[]): Promise<void>;
}

type Connect = (transport: McpTransport, ...rest: unknown[]) => Promise<void>;

const used = new WeakSet<object>();

/**
 * Prepares every transport that a client or server connects to, after the SDK has installed its callbacks and before
 * the first message.
 *
 * @throws TypeError if it has no `connect`, Error if it is connected already; each `connect` rejects for a transport that has served another
 */
export function onConnect(endpoint: Connectable, prepare: (transport: McpTransport) => void): void {
  const inner = innerOf(endpoint);
  if (!isConnectable(inner))
    throw new TypeError(
      'this is no MCP endpoint: it has no connect(); pass a McpServer, Server or Client of the SDK',
    );
  if ('transport' in inner && inner.transport !== undefined) {
    throw new Error('this MCP endpoint is connected already: protect it first, then connect it');
  }
  // All transports of the SDKs have the members of McpTransport. Only the types of their messages differ.
  const connect = inner.connect.bind(inner) as Connect;
  const connectPrepared: Connect = async (transport, ...rest) => {
    if (used.has(transport)) {
      throw new Error(
        'this transport has served another connection: make a new one for each client, or answers reach the wrong one',
      );
    }
    used.add(transport);
    const start = transport.start.bind(transport);
    transport.start = () => {
      prepare(transport);
      transport.start = start;
      return start();
    };
    await connect(transport, ...rest);
  };
  inner.connect = connectPrepared;
}

/** The `Server` in a `McpServer`, which passes its transports to it; it could also be connected directly. */
function innerOf(endpoint: Connectable): Connectable {
  return 'server' in endpoint && isConnectable(endpoint.server) ? endpoint.server : endpoint;
}

function isConnectable(value: unknown): value is Connectable {
  return (
    typeof value === 'object' && value !== null && 'connect' in value && typeof value.connect === 'function'
  );
}
