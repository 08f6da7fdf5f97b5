import type { McpProtection } from '../../src/middleware/mcp/index.js';

/**
 * Sends a request to a protected server of MCP, without an SDK.
 *
 * @param extra what the SDK would pass with the message
 * @returns what its handler gives; rejects with the error of the answer if the request is refused
 */
export function askMcp<T>(
  protection: McpProtection,
  message: object,
  handler: () => T,
  extra: object = {},
): Promise<T> {
  const transport: { onmessage: (message: object, extra: object) => void; [member: string]: unknown } = {
    onmessage: () => undefined,
  };
  const server = protection.protectServer({ connect: (made: { start(): Promise<void> }) => made.start() });
  return new Promise((resolve, reject) => {
    Object.assign(transport, {
      onmessage: () => resolve(handler()),
      start: () => Promise.resolve(),
      send: ({ error }: { readonly error: { readonly message: string } }) => {
        reject(Object.assign(new Error(error.message), error));
        return Promise.resolve();
      },
    });
    void server
      .connect(transport as never)
      .then(() => transport.onmessage({ jsonrpc: '2.0', id: 0, ...message }, extra));
  });
}
