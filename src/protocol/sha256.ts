// SHA-256 where there is no Node: own code, since WebCrypto's is asynchronous, pages carry it, and a library of it is
// three times as large. What it hashes is public, so it may take a time that depends on it.

const BLOCK_BYTES = 64;
const ROUNDS = 64;

const primes: number[] = [];
for (let n = 2; primes.length < ROUNDS; n++) if (primes.every((prime) => n % prime > 0)) primes.push(n);
// 32 bits from the fractions of roots (§4.2.2, §5.3.3): the arrays drop all bits above and below. Each root is thousands
// of times as far from the next such number as an engine may err, so all engines get the same.
const start = Int32Array.from(primes.slice(0, 8), (prime) => Math.sqrt(prime) * 2 ** 32);
const constants = Int32Array.from(primes, (prime) => Math.cbrt(prime) * 2 ** 32);
/** The message schedule, written anew for each block. */
const schedule = new Int32Array(ROUNDS);

/**
 * The SHA-256 of bytes, in lowercase hexadecimal digits.
 *
 * @see FIPS 180-4 §5.1.1, §6.2
 */
export function sha256HexOf(message: Uint8Array): string {
  // The message, a bit, and zeros up to its length in bits, which has 8 bytes.
  const padded = new Uint8Array(Math.ceil((message.length + 9) / BLOCK_BYTES) * BLOCK_BYTES);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, message.length / 2 ** 29);
  view.setUint32(padded.length - 4, message.length << 3);

  const state = start.slice() as State;
  for (let at = 0; at < padded.length; at += BLOCK_BYTES) addBlock(state, view, at);
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

/** Eight words. */
type State = Int32Array & Record<0 | 1 | 2 | 3 | 4 | 5 | 6 | 7, number>;

// Neither loops over the words nor moves them as lists, which takes twice as long.
function addBlock(state: State, view: DataView, from: number): void {
  for (let t = 0; t < 16; t++) schedule[t] = view.getInt32(from + 4 * t);
  for (let t = 16; t < ROUNDS; t++) {
    const x = schedule[t - 15] as number;
    const y = schedule[t - 2] as number;
    const mixed = (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    schedule[t] = (mixed + (schedule[t - 16] as number) + (schedule[t - 7] as number)) | 0;
  }
  let a = state[0];
  let b = state[1];
  let c = state[2];
  let d = state[3];
  let e = state[4];
  let f = state[5];
  let g = state[6];
  let h = state[7];
  for (let t = 0; t < ROUNDS; t++) {
    const chosen = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g));
    const added = (chosen + h + (constants[t] as number) + (schedule[t] as number)) | 0;
    const majority = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = (d + added) | 0;
    d = c;
    c = b;
    b = a;
    a = (added + majority) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

/** Turns a word to the right. */
function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}
