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
export const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** The headers of each request. */
export const HEADERS = { 'content-type': 'application/json' };

/** Posts with `fetch`, for runtimes without Node's sockets. */
export function postByFetch(url: URL, fetch: typeof globalThis.fetch): Transport {
  return {
    post: async (json, signal) => {
      // Redirects are not followed: they could lead to a server that accepts everything. Workers know no `error`.
      const init: RequestInit = { method: 'POST', headers: HEADERS, body: json, signal, redirect: 'manual' };
      const response = await fetch(url, init);
      return {
        // Browsers hide the status of a redirect.
        status: response.type === 'opaqueredirect' ? 302 : response.status,
        retryAfter: response.headers.get('retry-after'),
        text: await readText(response.body),
      };
    },
    close: () => Promise.resolve(),
  };
}

async function readText(stream: ReadableStream<Uint8Array> | null): Promise<string> {
  const reader = stream?.getReader();
  const decoder = new TextDecoder();
  let [text, size] = ['', 0];
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { done: true };
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > MAX_ANSWER_BYTES) {
      await reader?.cancel();
      throw new Error(`the answer is larger than ${MAX_ANSWER_BYTES} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
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
