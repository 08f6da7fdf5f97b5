/** The id of a JSON-RPC request. */
export type RequestId = string | number;

/** A JSON-RPC message, as far as it is looked at here. */
export interface Message {
  readonly jsonrpc: '2.0';
  readonly id?: RequestId;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** What the transports of both SDKs have in common. */
export interface McpTransport {
  start(): Promise<void>;
  send(message: Message, options?: unknown): Promise<void>;
  onmessage?: (message: Message, extra?: unknown) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
}

/** What the clients and servers of both SDKs have in common: `Client`, `Server`, `McpServer`. */
export interface Connectable {
  connect(transport: never, ...rest: never[]): Promise<void>;
}

type Connect = (transport: McpTransport, ...rest: unknown[]) => Promise<void>;

const used = new WeakSet<object>();

/**
 * Has every transport that a client or server connects to prepared, once the SDK has installed its callbacks and
 * before the first message.
 *
 * @throws Error if it is connected already; each `connect` rejects for a transport that has served another
 */
export function onConnect(endpoint: Connectable, prepare: (transport: McpTransport) => void): void {
  // McpServer hands its transports to the Server inside, which could also be connected on its own.
  const inner = 'server' in endpoint && isConnectable(endpoint.server) ? endpoint.server : endpoint;
  if ('transport' in inner && inner.transport !== undefined) {
    throw new Error('this MCP endpoint is connected already: protect it first, then connect it');
  }
  // The SDKs' transports all have the members of McpTransport; their types differ in what a message may hold.
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

function isConnectable(value: unknown): value is Connectable {
  return (
    typeof value === 'object' && value !== null && 'connect' in value && typeof value.connect === 'function'
  );
}
