import { Pool } from 'undici';
import { MAX_ANSWER_BYTES, type Transport } from './transport-web.js';

// `#transport` in package.json: loaded by a client's first request.

/** Posts over a pool of kept-alive connections. */
export function openTransport(url: URL, connections: number): Transport {
  const pool = new Pool(url.origin, { connections, maxResponseSize: MAX_ANSWER_BYTES });
  return {
    post: async (content, contentType, signal) => {
      const { statusCode, headers, body } = await pool.request({
        path: url.pathname,
        method: 'POST',
        headers: { 'content-type': contentType, 'accept-encoding': 'identity' },
        body: content,
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
