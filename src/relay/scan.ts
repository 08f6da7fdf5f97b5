/** More than any id has: a longer one is not kept. */
const MAX_TOKEN = 1024;

/**
 * Reads a JSON text once, piece by piece, however long it is, and finds what a relay needs of a message: its id, and where
 * a member can be put into `params` and `params._meta`. Of a text that is no JSON it finds nothing, or anything.
 *
 * @example
 * const scan = new Scan();
 * scan.push(Buffer.from('{"method":"ping","id":1.50}'));
 * scan.id; // '1.50'
 */
export class Scan {
  /** The member `id` as it is written; `null` if none has come that is a string or a number. */
  id: string | null = null;
  /** Where the members of these objects begin, in bytes; -1 if they have not come. */
  params = -1;
  meta = -1;
  #at = 0;
  #depth = 0;
  /** For the message and `params`: whether it is an object, and the name of the member that is being read. */
  readonly #isObject = [false, false, false];
  readonly #names = ['', '', ''];
  #expectsName = false;
  #isString = false;
  #isEscaped = false;
  /** The characters of a name or an id that is being read. */
  #token: number[] | null = null;

  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at++, this.#at++) {
      const byte = bytes[at] as number;
      if (this.#isString) this.#within(byte);
      else this.#between(byte);
    }
  }

  #within(byte: number): void {
    this.#keep(byte);
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === 0x5c) this.#isEscaped = true;
    else if (byte === 0x22) {
      this.#isString = false;
      if (!this.#expectsName) this.#endId();
      else this.#names[this.#depth] = String(parse(this.#take()));
    }
  }

  #between(byte: number): void {
    switch (byte) {
      case 0x22: // "
        this.#isString = true;
        this.#token = this.#expectsName || this.#isId ? [byte] : null;
        return;
      case 0x7b: // {
      case 0x5b: // [
        this.#open(byte === 0x7b);
        return;
      case 0x3a: // :
        this.#expectsName = false;
        return;
      case 0x2c: // ,
      case 0x7d: // }
      case 0x5d: // ]
        this.#endId();
        if (byte !== 0x2c) this.#depth--;
        this.#expectsName = byte === 0x2c && this.#isObject[this.#depth] === true;
        return;
      default:
        if (byte <= 0x20) this.#endId();
        else if (this.#isId) {
          this.#token ??= [];
          this.#keep(byte);
        }
    }
  }

  #open(isObject: boolean): void {
    this.#depth++;
    const isRead = this.#depth <= 2;
    this.#expectsName = isObject && isRead;
    const [, first, second] = this.#names;
    if (isObject && first === 'params') {
      if (this.#depth === 2) this.params = this.#at + 1;
      else if (this.#depth === 3 && second === '_meta') this.meta = this.#at + 1;
    }
    if (!isRead) return;
    this.#isObject[this.#depth] = isObject;
    this.#names[this.#depth] = '';
  }

  get #isId(): boolean {
    return this.#depth === 1 && !this.#expectsName && this.#names[1] === 'id';
  }

  #endId(): void {
    if (this.#token === null) return;
    const text = this.#take();
    if (this.#isId && ['string', 'number'].includes(typeof parse(text))) this.id ??= text;
  }

  #keep(byte: number): void {
    if (this.#token !== null && this.#token.length <= MAX_TOKEN) this.#token.push(byte);
  }

  #take(): string {
    const text = Buffer.from(this.#token ?? []).toString();
    this.#token = null;
    return text;
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
