import { createReadStream } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import type { Verdict } from '../client/index.js';
import { Lines, type Piece } from '../stdio/lines.js';
import { write } from '../stdio/write.js';
import { EXIT, type ExitCode } from './command-error.js';
import { unreadable } from './files.js';
import { Progress } from './progress.js';
import { printableJson } from './terminal.js';

/** Why there is no verdict on a line, as in a batch of the service. */
export interface Refusal {
  readonly error: string;
  readonly status: number;
}

/** Judges lines, many at a time. */
export interface LineVerifier {
  /** Bytes of the longest line. */
  readonly maxBytes: number;
  /**
   * @param line the JSON text of a bundle; only valid during the call
   * @throws CommandError if no further line can be judged
   */
  verify(line: Buffer): Promise<Verdict | Refusal>;
}

/** Lines that are being judged, or whose verdict waits for one before it. */
const MAX_LINES = 256;
/** Their bytes; a single line may have more. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Verdicts are written together, unless no other is being waited for. */
const WRITE_CHARACTERS = 64 * 1024;

/** `ok` if the chain is valid and the body, if there is one, is what was signed. */
export function exitCodeOf(verdict: Verdict): ExitCode {
  return verdict.valid && (verdict.binding ?? 'match') === 'match' ? EXIT.ok : EXIT.no;
}

/**
 * Verifies NDJSON from files and writes a line for each of its lines, in the same order. Reads no further while the reader
 * of the output does not.
 *
 * @param files `-` is standard input
 * @returns `failed` if a line got no verdict, else `no` if a bundle is not valid, or its body is not what was signed
 * @throws CommandError if a file cannot be read, or no further line can be judged
 */
export async function verifyStream(
  files: readonly string[],
  verifier: LineVerifier,
  output: Writable = process.stdout,
): Promise<ExitCode> {
  const verdicts = new VerdictWriter(output);
  for (const file of files) {
    const input = file === '-' ? process.stdin : createReadStream(file);
    // Where nothing can be judged any more, the rest is not waited for.
    verdicts.onFailure = () => input.destroy();
    try {
      for await (const line of linesOf(input, verifier.maxBytes))
        await verdicts.add(line === null ? tooLong(verifier) : verifier.verify(line), line?.length ?? 0);
    } catch (error) {
      await verdicts.end();
      throw unreadable(file, 'bundles', error);
    }
  }
  return verdicts.end();
}

async function* linesOf(input: Readable, maxBytes: number): AsyncGenerator<Buffer | null> {
  const lines = new Lines(maxBytes);
  const read = function* (pieces: Iterable<Piece>) {
    // What is left of a line that is too long is skipped.
    for (const { kind, bytes } of pieces) if (kind !== 'rest') yield kind === 'line' ? bytes : null;
  };
  for await (const chunk of input as AsyncIterable<Buffer>) yield* read(lines.push(chunk));
  const last = lines.end();
  if (last.length > 0) yield last;
}

const tooLong = ({ maxBytes }: LineVerifier): Promise<Refusal> =>
  Promise.resolve({ error: `the line has more than ${maxBytes} bytes (MAX_BODY_BYTES)`, status: 413 });

/** Writes verdicts in the order of their lines, however they come. */
class VerdictWriter {
  /** Called when no further line can be judged. */
  onFailure: () => void = () => undefined;
  readonly #output: Writable;
  readonly #progress = new Progress();
  /** Each resolves when its verdict, and all before it, are written or gathered. */
  readonly #pending: { readonly done: Promise<void>; readonly bytes: number }[] = [];
  #last: Promise<void> = Promise.resolve();
  #bytes = 0;
  #left = 0;
  #text = '';
  #exitCode: ExitCode = EXIT.ok;
  #failure: { readonly error: unknown } | null = null;

  constructor(output: Writable) {
    this.#output = output;
  }

  /**
   * Resolves when there is room for another.
   *
   * @param bytes of its line
   * @throws the error of a line before
   */
  async add(verdict: Promise<Verdict | Refusal>, bytes: number): Promise<void> {
    // It is awaited when its turn comes, which may be after it has failed.
    verdict.catch(() => undefined);
    this.#left++;
    this.#bytes += bytes;
    this.#last = this.#last.then(() => this.#take(verdict));
    this.#pending.push({ done: this.#last, bytes });
    while (this.#pending.length >= MAX_LINES || this.#bytes > MAX_BYTES) {
      const oldest = this.#pending.shift();
      await oldest?.done;
      this.#bytes -= oldest?.bytes ?? 0;
    }
    this.#throwFailure();
  }

  /** @throws the first error */
  async end(): Promise<ExitCode> {
    await this.#last;
    this.#progress.end();
    this.#throwFailure();
    return this.#exitCode;
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** Never rejects. */
  async #take(given: Promise<Verdict | Refusal>): Promise<void> {
    if (this.#failure !== null) return;
    try {
      const verdict = await given;
      const outcome = 'status' in verdict ? EXIT.failed : exitCodeOf(verdict);
      this.#exitCode = Math.max(this.#exitCode, outcome) as ExitCode;
      this.#text += `${printableJson(verdict)}\n`;
      this.#progress.count(outcome);
    } catch (error) {
      this.#failure = { error };
      this.onFailure();
    }
    if (--this.#left > 0 && this.#text.length < WRITE_CHARACTERS && this.#failure === null) return;
    const text = this.#text;
    this.#text = '';
    await write(this.#output, text);
  }
}
