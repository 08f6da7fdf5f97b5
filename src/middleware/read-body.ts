import type { IncomingMessage } from 'node:http';

/**
 * Reads the whole body of a request and puts it back, so that whatever reads the request next finds it intact.
 *
 * @param most bytes
 * @returns the bytes; `too large` as soon as there are more; `gone` where the client went away first
 * @throws Error if something has read from the request before
 */
export async function readBody(req: IncomingMessage, most: number): Promise<Buffer | 'too large' | 'gone'> {
  if (req.readableDidRead) {
    throw new Error(
      'the request body was read before the DRS middleware could see it: put the middleware in front of every body parser',
    );
  }
  const length = req.headers['content-length'];
  if (Number(length) > most) return 'too large';
  if (req.headers['transfer-encoding'] === undefined && Number(length ?? 0) === 0) return Buffer.alloc(0);
  if (req.destroyed) return 'gone';
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (outcome: Buffer | 'too large' | 'gone') => {
      req.off('readable', gather).off('end', end).off('close', leave).off('error', leave);
      resolve(outcome);
    };
    // `complete` is set before the stream ends. Until `end` is emitted, what was read can be put back; and `end` is
    // not emitted while something is in the stream, nor before a read that finds it empty.
    const gather = () => {
      while (req.readableLength > 0) {
        const chunk = req.read() as Buffer | null;
        if (chunk === null) break;
        size += chunk.length;
        if (size > most) {
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
