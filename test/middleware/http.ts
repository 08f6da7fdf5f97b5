import { once } from 'node:events';
import { createServer, request, type RequestListener, type Server, type ServerOptions } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface TestServer {
  readonly url: string;
  readonly server: Server;
  close(): Promise<void>;
}

export async function listen(listener: RequestListener, options: ServerOptions = {}): Promise<TestServer> {
  const server = createServer(options, listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: unknown;
}

/** Sends a request as it is given: header names can repeat, bodies can come in pieces. */
export async function send(
  url: string,
  headers: readonly (readonly [string, string])[],
  body: string | Buffer | readonly string[],
): Promise<RawAnswer> {
  const req = request(url, { method: 'POST', agent: false });
  for (const name of new Set(headers.map(([name]) => name))) {
    const values = headers.filter(([other]) => other === name).map(([, value]) => value);
    req.setHeader(name, values.length === 1 ? (values[0] as string) : values);
  }
  if (Array.isArray(body)) {
    for (const piece of body as readonly string[]) {
      await new Promise((resolve) => req.write(piece, resolve));
    }
    req.end();
  } else req.end(body);
  const [res] = (await once(req, 'response')) as [import('node:http').IncomingMessage];
  let text = '';
  for await (const chunk of res.setEncoding('utf8')) text += chunk as string;
  let parsed: unknown = text;
  try {
    parsed = JSON.parse(text);
  } catch {
    // Left as text.
  }
  return { status: res.statusCode ?? 0, headers: res.headers, body: parsed };
}
