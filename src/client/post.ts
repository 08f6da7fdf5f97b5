/** The answer to a request. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly text: string;
}

/** Posts to one address. */
export interface Transport {
  /** @param lines of the request, without line feeds if there are several */
  post(lines: readonly string[], contentType: string, signal: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

/** Maximum size of an answer in bytes. A verdict is small: it contains one policy. */
export const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** The type of one call. */
export const JSON_TYPE = 'application/json';
/** The type of several calls, one a line. */
export const NDJSON_TYPE = 'application/x-ndjson';

/** Posts with `fetch`, for runtimes without Node's sockets. */
export function postByFetch(url: URL, fetch: typeof globalThis.fetch): Transport {
  return {
    post: async (lines, contentType, signal) => {
      const headers = { 'content-type': contentType };
      // Redirects are not followed: they could lead to a server that accepts everything. Workers know no `error`.
      const init: RequestInit = {
        method: 'POST',
        headers,
        body: lines.join('\n'),
        signal,
        redirect: 'manual',
      };
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
