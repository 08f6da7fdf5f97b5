/** First in, first out. What is taken out is freed at once. */
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

/** Lines of clients that take turns, each first in, first out. */
export class InTurns<Item> {
  /** None of them is empty. */
  readonly #lines = new Map<string, Fifo<Item>>();
  readonly #order = new Fifo<string>();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(client: string, item: Item): void {
    let line = this.#lines.get(client);
    if (line === undefined) {
      this.#lines.set(client, (line = new Fifo()));
      this.#order.push(client);
    }
    line.push(item);
    this.#length++;
  }

  /** Takes out the oldest of the client whose turn it is. */
  shift(): Item | undefined {
    const client = this.#order.shift();
    if (client === undefined) return undefined;
    const line = this.#lines.get(client) as Fifo<Item>;
    if (line.length > 1) this.#order.push(client);
    else this.#lines.delete(client);
    this.#length--;
    return line.shift();
  }
}
