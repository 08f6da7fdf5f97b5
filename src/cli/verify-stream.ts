import { createReadStream } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { decodeUtf8 } from '#platform';
import { DrsClient, DrsClientError, type Verdict } from '../client/index.js';
import { isJsonObject } from '../protocol/json.js';
import { parseCompactJwt } from '../protocol/jwt.js';
import { readConfiguration, type Configuration } from '../service/configuration/configuration.js';
import { readJson } from '../service/http/judged-body.js';
import { openEngine } from '../verifier/create-verifier.js';
import type { Engine } from '../verifier/engine.js';
import { OptionsError } from '../verifier/options.js';
import { asksForDetails, toVerdict } from '../verifier/verdict.js';
import { parseBundleText } from '../verify/receipt-cache.js';
import { Lines, write, type Line } from '../relay/lines.js';
import { CommandError, EXIT, exitCodeOf, type ExitCode } from './command-error.js';
import { unreadable } from './files.js';
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
  const read = function* (found: Iterable<Line>) {
    for (const { bytes, isTooLong } of found) yield isTooLong ? null : bytes;
  };
  for await (const chunk of input as AsyncIterable<Buffer>) yield* read(lines.push(chunk));
  yield* read(lines.end());
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

const INTERVAL_MS = 250;

/** Shows how far a stream of verdicts is, on standard error, if that alone is a terminal. */
export class Progress {
  readonly #stream: NodeJS.WriteStream | null;
  readonly #counts = { [EXIT.ok]: 0, [EXIT.no]: 0, [EXIT.failed]: 0 };
  readonly #start = performance.now();
  #shownAt = this.#start;

  /** @param outcomes where the verdicts go: on a terminal, they show themselves how far it is */
  constructor(stream: NodeJS.WriteStream = process.stderr, outcomes: NodeJS.WriteStream = process.stdout) {
    this.#stream = stream.isTTY && !outcomes.isTTY ? stream : null;
  }

  /** Counts a verdict. */
  count(outcome: ExitCode): void {
    this.#counts[outcome]++;
    if (this.#stream === null) return;
    const now = performance.now();
    if (now - this.#shownAt < INTERVAL_MS) return;
    this.#shownAt = now;
    this.#stream.write(`\r\u001b[K${this.#text(now)}`);
  }

  /** Shows all, and goes to the next line. */
  end(): void {
    this.#stream?.write(`\r\u001b[K${this.#text(performance.now())}\n`);
  }

  #text(now: number): string {
    const { [EXIT.ok]: yes, [EXIT.no]: no, [EXIT.failed]: failed } = this.#counts;
    const all = yes + no + failed;
    const rate = Math.round(all / Math.max(0.001, (now - this.#start) / 1000));
    const unknown = failed === 0 ? '' : `, ${failed} without a verdict`;
    return `${all} lines: ${yes} valid, ${no} not valid${unknown}; ${rate} a second`;
  }
}

/** When bundles are judged: Unix seconds; `call`: when each invocation says that it was signed; `null`: now. */
export type JudgedAt = number | 'call' | null;

type Open = LineVerifier & { close(): Promise<void> };

/**
 * Verifies lines in this process, with the variables of the service. Used invocations are neither known nor recorded.
 *
 * @throws CommandError if a variable is wrong, or what it names cannot be opened
 */
export async function openLocal(env: NodeJS.ProcessEnv, at: JudgedAt): Promise<Open> {
  const configuration = readOrThrow(env);
  let engine: Engine;
  try {
    engine = await openEngine({ ...configuration, replayProtection: undefined });
  } catch (error) {
    throw new CommandError(
      `cannot verify in this process: ${(error as Error).message}`,
      'see what the variables of the service name, or ask the service with --url',
    );
  }
  return {
    maxBytes: configuration.maxBodyBytes,
    verify: async (line) => {
      const read = readJson(line, (text) => parseBundleText(text, engine.cache));
      if (read.fault !== undefined)
        return { error: read.error, status: read.fault === 'too_large' ? 413 : 400 };
      const { bundle } = read.parsed;
      const now = at === 'call' ? timeOf(bundle) : (at ?? undefined);
      const outcome = await engine.verify({
        bundle,
        body: read.parsed.body,
        now,
      });
      return toVerdict(outcome, asksForDetails(bundle));
    },
    close: () => engine.close(),
  };
}

function readOrThrow(env: NodeJS.ProcessEnv): Configuration {
  try {
    return readConfiguration(env);
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    throw new CommandError(error.message, 'set the variable as for the service, or unset it');
  }
}

/** The `iat` of an invocation. Of one that has none, the time does not matter: it is malformed. */
function timeOf(bundle: unknown): number | undefined {
  const invocation = isJsonObject(bundle) ? bundle['invocation'] : null;
  if (typeof invocation !== 'string') return undefined;
  const jwt = parseCompactJwt(invocation);
  const iat = jwt.defect === undefined ? jwt.payload['iat'] : undefined;
  return typeof iat === 'number' ? iat : undefined;
}

/** Of one line, the service says itself what is too much. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;
/** Statuses that are about a line. */
const OF_A_LINE: ReadonlySet<unknown> = new Set([400, 413, 500]);

/** Has a service verify lines. If it is busy, the rest waits. */
export function openRemote(url: string): Open {
  const client = newClient(url);
  return {
    maxBytes: MAX_LINE_BYTES,
    verify: async (line) => {
      const text = decodeUtf8(line);
      if (text === null) return { error: 'the line is not UTF-8, expected JSON (RFC 8259)', status: 400 };
      try {
        return await client.verifyText(text);
      } catch (error) {
        if (error instanceof SyntaxError)
          return { error: `the line is not JSON: ${error.message}`, status: 400 };
        if (!(error instanceof DrsClientError)) throw error;
        const { status, message } = error;
        if (status !== undefined && OF_A_LINE.has(status)) return { error: message, status };
        throw new CommandError(
          `no verdict from the service: ${message}`,
          'start it with `npx drs-verify serve`, or give the address where it runs; then start again',
        );
      }
    },
    close: () => client.close(),
  };
}

function newClient(url: string): DrsClient {
  try {
    return new DrsClient(url, { timeoutMs: 60_000, retries: 6 });
  } catch (error) {
    throw new CommandError((error as Error).message, 'correct --url');
  }
}
