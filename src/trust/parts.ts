/** A part of a file: a text like that of a whole file, but of a few entries or of none. */
export interface Part {
  /** `null` if it is too long to be read. */
  readonly bytes: Buffer | null;
  /** The line in the file of a line of the part, both counted from 1. */
  readonly lineOf: (line: number) => number;
}

/** Maximum number of bytes of an entry, and of what stands before or behind the list of entries. */
export const MAX_ENTRY_BYTES = 512 * 1024;
// Some 500 entries, which take a few milliseconds to check.
const PART_BYTES = 64 * 1024;
const [OPENING, CLOSING] = [Buffer.from('{"roots":['), Buffer.from(']}')];

const byteOf = (character: string) => character.charCodeAt(0);
const [QUOTE, BACKSLASH, COMMA, LINE_FEED] = ['"', '\\', ',', '\n'].map(byteOf);
const SPACE = 0x20;
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = ['{', '}', '[', ']'].map(byteOf);

/**
 * Cuts a file into parts that can be read one by one: JSON.parse would keep a large file to itself until it is done. The
 * entries are what is in the first array that is directly in the outermost object. The last part is the file without
 * them; a reader must refuse it unless that array is `roots`.
 *
 * A text is JSON if and only if all parts are: up to the first fault, this sees strings and brackets as JSON does, and
 * the part with the fault has it.
 *
 * @param partBytes number of bytes after which a part ends with the next entry
 */
export function* partsOf(file: Buffer, partBytes = PART_BYTES): Generator<Part, void, void> {
  let line = 1;
  let depth = 0;
  let isInString = false;
  let place: 'before' | 'within' | 'behind' = 'before';
  /** Where the list begins and ends. */
  let [first, end] = [0, file.length];
  let [firstLine, endLine] = [1, 1];
  let [partAt, partLine] = [0, 1];
  /** Where the entry begins; before and behind the list, what stands there. */
  let [entryAt, entryLine] = [0, 1];
  const partTo = (at: number): Part => {
    const from = partLine;
    const isBlank = partAt > first && file.toString('latin1', partAt, at).trim() === '';
    // With the comma that must not be there.
    const text = file.subarray(isBlank ? partAt - 1 : partAt, at);
    return { bytes: Buffer.concat([OPENING, text, CLOSING]), lineOf: (one) => from + one - 1 };
  };
  for (let at = 0; at < file.length; at++) {
    const byte = file[at] as number;
    if (byte === LINE_FEED) line++;
    if (at - entryAt > MAX_ENTRY_BYTES) {
      // It begins behind white space.
      for (; (file[entryAt] as number) <= SPACE; entryAt++) if (file[entryAt] === LINE_FEED) entryLine++;
      yield { bytes: null, lineOf: () => entryLine };
      return;
    }
    if (isInString) {
      if (byte === BACKSLASH) at++;
      // No string has a line break, so one without its end confuses only its own part.
      else if (byte === QUOTE || byte < SPACE) isInString = false;
    } else if (byte === QUOTE) isInString = true;
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      depth++;
      if (byte === OPEN_ARRAY && depth === 2 && place === 'before') {
        place = 'within';
        first = partAt = entryAt = at + 1;
        firstLine = partLine = entryLine = line;
      }
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      depth--;
      if (depth === 1 && place === 'within') {
        yield partTo(at);
        place = 'behind';
        end = entryAt = at;
        endLine = entryLine = line;
      }
    } else if (byte === COMMA && depth === 2 && place === 'within') {
      if (at - partAt >= partBytes) {
        yield partTo(at);
        [partAt, partLine] = [at + 1, line];
      }
      [entryAt, entryLine] = [at + 1, line];
    }
  }
  if (place === 'before') {
    yield { bytes: file, lineOf: (one) => one };
    return;
  }
  if (place === 'within') {
    yield partTo(file.length);
    endLine = line;
  }
  // Its own line break marks the place of the entries.
  yield {
    bytes: Buffer.concat([file.subarray(0, first), Buffer.from('\n'), file.subarray(end)]),
    lineOf: (one) => (one <= firstLine ? one : one - 1 + endLine - firstLine),
  };
}
