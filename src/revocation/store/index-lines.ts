const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const HASH = 0x23;
const ZERO = 0x30;

// States of the reader within a line. Plain numbers, because the loop runs for every byte of files of up to 180 MB.
const AT_START = 0;
const IN_DIGITS = 1;
const AFTER_DIGITS = 2;
const IN_COMMENT = 3;
const IN_DAMAGE = 4;

// No index in this line so far.
const NONE = -1;

/**
 * Reads lines of one decimal index each, chunk by chunk. Allows blank lines, `#` comments (also after an index), white
 * space around an index and CRLF. Any other line is damaged and is skipped as a whole.
 *
 * A line counts only when its line feed has been read. The {@link tailLength} bytes after the last line feed
 * do not count, even if they look like an index: who wrote them is for the caller to find out.
 */
export class IndexLines {
  readonly #onIndex: (index: number) => void;
  readonly #onDamagedLine: (line: number) => void;
  #place = AT_START;
  #index = NONE;
  #line = 1;
  #tailLength = 0;

  /** @param onDamagedLine called with the number of the line, from 1 */
  constructor(onIndex: (index: number) => void, onDamagedLine: (line: number) => void) {
    this.#onIndex = onIndex;
    this.#onDamagedLine = onDamagedLine;
  }

  /** Bytes seen since the last line feed. */
  get tailLength(): number {
    return this.#tailLength;
  }

  /** Reads the next bytes of the file. A chunk may end anywhere. */
  read(chunk: Uint8Array): void {
    let place = this.#place;
    let index = this.#index;
    let lineStart = -this.#tailLength;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (byte === LINE_FEED) {
        if (place === IN_DAMAGE) this.#onDamagedLine(this.#line);
        else if (index !== NONE) this.#onIndex(index);
        this.#line++;
        place = AT_START;
        index = NONE;
        lineStart = at + 1;
      } else if (place === IN_DAMAGE || place === IN_COMMENT) {
        continue;
      } else if (byte >= ZERO && byte <= ZERO + 9 && place !== AFTER_DIGITS) {
        // Subtract first: `index * 10 + byte` could exceed 2^53 and be rounded.
        index = (index === NONE ? 0 : index * 10) + (byte - ZERO);
        place = index <= Number.MAX_SAFE_INTEGER ? IN_DIGITS : IN_DAMAGE;
      } else if (byte === SPACE || byte === TAB || byte === CARRIAGE_RETURN) {
        if (place === IN_DIGITS) place = AFTER_DIGITS;
      } else {
        place = byte === HASH ? IN_COMMENT : IN_DAMAGE;
      }
    }
    this.#place = place;
    this.#index = index;
    this.#tailLength = chunk.length - lineStart;
  }
}
