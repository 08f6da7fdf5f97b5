/**
 * Settles like the promise of a command that was just handed to a client, or rejects when the time is over.
 *
 * A busy thread does not use up the time: it begins when the client has sent the command, and an answer that has
 * already arrived counts.
 */
export async function rejectAfter<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let sent: NodeJS.Immediate | undefined;
  const timeout = new Promise<never>((_, reject) => {
    // In a turn of the event loop, timers run before sockets are read, and setImmediate runs after.
    const giveUp = () => setImmediate(() => reject(new Error(`no answer within ${timeoutMs} ms`)));
    // The client sends in a setImmediate, too, which was queued before this one.
    sent = setImmediate(() => (timer = setTimeout(giveUp, timeoutMs)));
  });
  // A rejection after the time limit must not become an unhandled rejection.
  promise.catch(() => undefined);
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearImmediate(sent);
    clearTimeout(timer);
  }
}
