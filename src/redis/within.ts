/**
 * The outcome of a promise, or a rejection once the time is over.
 *
 * An answer that has already arrived counts: where this thread was busy for longer than the time, it is read first.
 */
export async function within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    // A timer comes before the sockets in a turn of the event loop, setImmediate behind them.
    const giveUp = () => setImmediate(() => reject(new Error(`no answer within ${timeoutMs} ms`)));
    timer = setTimeout(giveUp, timeoutMs);
  });
  // Whichever loses must not become an unhandled rejection.
  promise.catch(() => undefined);
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
