// `#transport` in package.json where Node's sockets are not (browsers, workers) or are imitated (Bun has an `undici` without
// pools): there, `fetch` keeps connections itself.

export interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly text: string;
}

export interface Transport {
  post(body: string, contentType: string, signal: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

/** Maximum size of an answer in bytes. A verdict is small: it contains one policy. */
export const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

export function openTransport(url: URL, _connections: number): Transport {
  // Called as a function: some runtimes refuse it as a method of something else.
  return postByFetch(url, (input, init) => globalThis.fetch(input, init));
}

export function postByFetch(url: URL, fetch: typeof globalThis.fetch): Transport {
  return {
    post: async (body, contentType, signal) => {
      const headers = { 'content-type': contentType };
      // Redirects are not followed: they could lead to a server that accepts everything. Workers know no `error`.
      const response = await fetch(url, { method: 'POST', headers, body, signal, redirect: 'manual' });
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
