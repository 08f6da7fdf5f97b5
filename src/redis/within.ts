/**
 * Settles like a promise, or rejects when the time is over.
 *
 * An answer that has already arrived counts: if this thread was busy for longer than the time, the answer is read
 * first.
 */
export async function within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    // In a turn of the event loop, timers run before sockets are read, and setImmediate runs after.
    const giveUp = () => setImmediate(() => reject(new Error(`no answer within ${timeoutMs} ms`)));
    timer = setTimeout(giveUp, timeoutMs);
  });
  // A rejection after the time limit must not become an unhandled rejection.
  promise.catch(() => undefined);
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
