/** A client may hold so many times the places that are free: alone seven eighths of all. */
const SHARE = 7;

/** Slots of which there is a number, such as connections to a tool server. No client takes those that others need. */
export class PerClientSlots {
  readonly limit: number;
  taken = 0;
  /** Has only clients that hold some. */
  readonly #byClient = new Map<string, number>();

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Whether there is one for a client. @param client the result of `clientOf` for its address */
  hasFor(client: string): boolean {
    return this.#heldBy(client) < SHARE * (this.limit - this.taken);
  }

  /** Takes a place, which must be given back. @returns false if there is none for this client */
  take(client: string): boolean {
    if (!this.hasFor(client)) return false;
    this.#byClient.set(client, this.#heldBy(client) + 1);
    this.taken++;
    return true;
  }

  give(client: string): void {
    const left = this.#heldBy(client) - 1;
    if (left > 0) this.#byClient.set(client, left);
    else this.#byClient.delete(client);
    this.taken--;
  }

  #heldBy(client: string): number {
    return this.#byClient.get(client) ?? 0;
  }
}
