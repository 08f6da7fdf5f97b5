/** Closes what was opened, the last first. */
export class Closers {
  readonly #closers: (() => unknown)[] = [];

  add<T extends { close(): unknown }>(one: T): T {
    this.#closers.unshift(() => one.close());
    return one;
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0)) await close();
  }
}

/** Opens something, and closes what was opened for it if that fails. */
export async function closingOnError<T>(open: (opened: Closers) => Promise<T>): Promise<T> {
  const opened = new Closers();
  try {
    return await open(opened);
  } catch (error) {
    await opened.close();
    throw error;
  }
}
