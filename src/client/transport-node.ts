import { Pool } from 'undici';
import { MAX_ANSWER_BYTES, type Transport } from './post.js';

// `#transport` in package.json: loaded by a client's first request.

/** Posts over a pool of kept-alive connections. */
export function openTransport(url: URL, connections: number): Transport {
  const pool = new Pool(url.origin, { connections, maxResponseSize: MAX_ANSWER_BYTES });
  return {
    post: async (lines, contentType, signal) => {
      const { statusCode, headers, body } = await pool.request({
        path: url.pathname,
        method: 'POST',
        headers: { 'content-type': contentType },
        body: lines.length === 1 ? (lines[0] as string) : encode(lines),
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

/** For several: to join long strings and have a socket encode the result takes three times as long. */
function encode(lines: readonly string[]): Buffer {
  const size = lines.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
  const bytes = Buffer.allocUnsafeSlow(size);
  let end = 0;
  for (const line of lines) {
    end += bytes.write(line, end);
    bytes[end++] = LINE_FEED;
  }
  // Without the last line feed.
  return bytes.subarray(0, end - 1);
}

const LINE_FEED = 0x0a;
