import type { IncomingMessage } from 'node:http';

/**
 * Reads the whole body of a request and puts it back, so that the next reader finds it intact.
 *
 * @param maxBytes maximum size of the body
 * If something has read it already, the bytes that it kept as `rawBody` are the body (NestJS with the option `rawBody`).
 *
 * @returns the bytes; `too large` as soon as there are more; `gone` if the client disconnects first
 * @throws Error if something else has already read from the request, and has not kept the bytes
 */
export async function readBody(
  req: IncomingMessage & { readonly rawBody?: unknown },
  maxBytes: number,
): Promise<Buffer | 'too large' | 'gone'> {
  if (req.readableDidRead) {
    const { rawBody } = req;
    if (rawBody instanceof Uint8Array) return rawBody.length > maxBytes ? 'too large' : Buffer.from(rawBody);
    throw new Error(
      'the request body was read before the DRS middleware could see it: put the middleware in front of every body parser, ' +
        'or have the parser keep the bytes as req.rawBody (NestJS: the option rawBody)',
    );
  }
  const length = req.headers['content-length'];
  if (Number(length) > maxBytes) return 'too large';
  if (req.headers['transfer-encoding'] === undefined && Number(length ?? 0) === 0) return Buffer.alloc(0);
  if (req.destroyed) return 'gone';
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (outcome: Buffer | 'too large' | 'gone') => {
      req.off('readable', gather).off('end', end).off('close', leave).off('error', leave);
      resolve(outcome);
    };
    // `complete` is set before the stream ends. Data can be put back until `end` is emitted. `end` is not emitted while
    // there is data in the stream, nor before a read that finds it empty.
    const gather = () => {
      while (req.readableLength > 0) {
        const chunk = req.read() as Buffer | null;
        if (chunk === null) break;
        size += chunk.length;
        if (size > maxBytes) {
          settle('too large');
          return;
        }
        chunks.push(chunk);
      }
      if (!req.complete) return;
      const body = Buffer.concat(chunks, size);
      if (size > 0) req.unshift(body);
      settle(body);
    };
    const end = () => settle(Buffer.alloc(0));
    const leave = () => settle('gone');
    req.on('readable', gather).on('end', end).on('close', leave).on('error', leave);
  });
}
