/** Work that waits. `isLate`: it has waited for too long, and is to be refused. Must not throw. */
export type Work = (isLate: boolean) => void;

/** A request that waits. */
export interface Waiting {
  readonly work: Work;
  /** When it began to wait. */
  readonly since: number;
}

/** First in, first out, or the last with {@link pop}. What is taken out is freed at once. */
export class Fifo<Item> {
  #items: (Item | undefined)[] = [];
  #next = 0;

  get length(): number {
    return this.#items.length - this.#next;
  }

  get first(): Item | undefined {
    return this.#items[this.#next];
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  pop(): Item | undefined {
    return this.length === 0 ? undefined : this.#items.pop();
  }

  shift(): Item | undefined {
    const item = this.#items[this.#next];
    if (item === undefined) return undefined;
    this.#items[this.#next++] = undefined;
    // Moving the others costs their number, so it is worth it once they are at most half of all.
    if (2 * this.#next >= this.#items.length) {
      this.#items = this.#items.slice(this.#next);
      this.#next = 0;
    }
    return item;
  }
}

/** What waits for one client, oldest first. */
export class Line {
  readonly client: string;
  readonly waiting = new Fifo<Waiting>();

  constructor(client: string) {
    this.client = client;
  }
}

/** Lines of clients that take turns. */
export class RoundRobin {
  /** By client. None of them is empty. */
  readonly #lines = new Map<string, Line>();
  readonly #order = new Fifo<Line>();

  /** Number of lines. */
  get length(): number {
    return this.#order.length;
  }

  /** The line of a client, to which something must be added if it is new. */
  of(client: string): Line {
    let line = this.#lines.get(client);
    if (line === undefined) {
      this.#lines.set(client, (line = new Line(client)));
      this.#order.push(line);
    }
    return line;
  }

  /** Takes out the line whose turn it is. {@link putBack} must follow. */
  next(): Line | undefined {
    return this.#order.shift();
  }

  /** Puts a line behind the others; forgets it if it is empty. */
  putBack(line: Line): void {
    if (line.waiting.length > 0) this.#order.push(line);
    else this.#lines.delete(line.client);
  }
}
