/** The answer to a request. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly text: string;
}

/** Posts JSON text to one address. */
export interface Transport {
  post(json: string, signal: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

/** Maximum size of an answer in bytes. A verdict is small: it contains one policy. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const HEADERS = { 'content-type': 'application/json' };

/** Posts over a pool of kept-alive connections. Needs Node.js. */
export async function openPool(url: URL, connections: number): Promise<Transport> {
  const { Pool } = await import('undici');
  const pool = new Pool(url.origin, { connections, maxResponseSize: MAX_ANSWER_BYTES });
  return {
    post: async (json, signal) => {
      const { statusCode, headers, body } = await pool.request({
        path: url.pathname,
        method: 'POST',
        headers: HEADERS,
        body: json,
        signal,
      });
      const retryAfter = headers['retry-after'];
      return {
        status: statusCode,
        retryAfter: typeof retryAfter === 'string' ? retryAfter : null,
        text: await body.text(),
      };
    },
    close: () => pool.close(),
  };
}

/** Posts with `fetch`, for runtimes without Node's sockets. */
export function postByFetch(url: URL, fetch: typeof globalThis.fetch): Transport {
  return {
    post: async (json, signal) => {
      // Redirects are refused: they could lead to a server that accepts everything.
      const init: RequestInit = { method: 'POST', headers: HEADERS, body: json, signal, redirect: 'error' };
      const response = await fetch(url, init);
      return {
        status: response.status,
        retryAfter: response.headers.get('retry-after'),
        text: await response.text(),
      };
    },
    close: () => Promise.resolve(),
  };
}

const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether a request failed before anything of it could have been sent. */
export function neverConnected(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof AggregateError && cause.errors.length > 0) return cause.errors.every(neverConnected);
    if (NEVER_CONNECTED.has((cause as NodeJS.ErrnoException).code)) return true;
  }
  return false;
}
