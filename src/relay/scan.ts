/** More than any id has: a longer one is not found. */
const MAX_TOKEN = 1024;
const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_OBJECT, OPEN_ARRAY, CLOSE_OBJECT, CLOSE_ARRAY] = [0x7b, 0x5b, 0x7d, 0x5d];

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
  /** Of the message and of `params`: the name of the member that is being read; `null` within an array. */
  readonly #names: (string | null)[] = [];
  #expectsName = false;
  #isString = false;
  #isEscaped = false;
  /** The characters of the name or the id that is being read. */
  #token: number[] = [];

  push(bytes: Uint8Array): void {
    const { length } = bytes;
    const before = this.#at;
    for (let at = 0; at < length; at++) {
      // Long texts are passed over quickly.
      if (this.#isString && !this.#isEscaped && this.#token.length > MAX_TOKEN)
        while (at + 1 < length && bytes[at] !== QUOTE && bytes[at] !== BACKSLASH) at++;
      const byte = bytes[at] as number;
      this.#at = before + at;
      if (this.#isString) this.#readString(byte);
      else if (byte === QUOTE) {
        this.#isString = true;
        this.#token = [byte];
      } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.#open(byte === OPEN_OBJECT);
      else if (byte === COLON) {
        this.#expectsName = false;
        this.#token = [];
      } else if (byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
        this.#endValue();
        if (byte !== COMMA) this.#depth--;
        this.#expectsName = byte === COMMA && typeof this.#names[this.#depth] === 'string';
      } else if (byte > 0x20) this.#keep(byte);
    }
    this.#at = before + length;
  }

  #readString(byte: number): void {
    this.#keep(byte);
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) {
      this.#isString = false;
      if (this.#expectsName) this.#names[this.#depth] = String(parse(this.#token));
    }
  }

  #open(isObject: boolean): void {
    this.#depth++;
    this.#token = [];
    const [, first, second] = this.#names;
    if (isObject && first === 'params') {
      if (this.#depth === 2) this.params = this.#at + 1;
      else if (this.#depth === 3 && second === '_meta') this.meta = this.#at + 1;
    }
    this.#expectsName = isObject && this.#depth <= 2;
    if (this.#depth <= 2) this.#names[this.#depth] = isObject ? '' : null;
  }

  #endValue(): void {
    const isId = this.#depth === 1 && this.#names[1] === 'id';
    if (isId && ['string', 'number'].includes(typeof parse(this.#token)))
      this.id ??= Buffer.from(this.#token).toString();
    this.#token = [];
  }

  #keep(byte: number): void {
    if (this.#token.length <= MAX_TOKEN) this.#token.push(byte);
  }
}

function parse(token: readonly number[]): unknown {
  try {
    return JSON.parse(Buffer.from(token).toString());
  } catch {
    return null;
  }
}
