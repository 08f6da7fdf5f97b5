import { createReadStream } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import type { Verdict } from '../client/index.js';
import { isJsonObject } from '../protocol/json.js';
import { parseCompactJwt } from '../protocol/jwt.js';
import { Lines, write, type Line } from '../relay/lines.js';
import { readConfiguration } from '../service/configuration/configuration.js';
import { readJson } from '../service/http/judged-body.js';
import { openEngine } from '../verifier/create-verifier.js';
import { asksForDetails, toVerdict } from '../verifier/verdict.js';
import { parseBundleText } from '../verify/receipt-cache.js';
import { CommandError, EXIT, exitCodeOf, type ExitCode } from './command-error.js';
import { unreadable } from './files.js';
import { printableJson } from './terminal.js';

/** When bundles are judged: Unix seconds; `call`: when each invocation says that it was signed; `null`: now. */
export type JudgedAt = number | 'call' | null;

/** Why there is no verdict on a line, as in a batch of the service. */
interface NoVerdict {
  readonly error: string;
  readonly status: number;
}

/** Judges lines, many at a time. */
export interface LineVerifier {
  /** Bytes of the longest line. */
  readonly maxBytes: number;
  /** @param line the JSON text of a bundle; only valid during the call */
  readonly verify: (line: Buffer) => Promise<Verdict | NoVerdict>;
}

/**
 * Verifies NDJSON from files in this process, with the variables of the service. Used invocations are neither known nor
 * recorded.
 *
 * @param files `-` is standard input
 * @returns see {@link verifyLines}
 * @throws OptionsError if a variable is wrong; CommandError if what it names cannot be opened
 */
export async function verifyStream(files: readonly string[], at: JudgedAt): Promise<ExitCode> {
  const configuration = readConfiguration(process.env);
  const opening = openEngine({ ...configuration, replayProtection: undefined });
  const engine = await opening.catch((error: unknown) => {
    throw new CommandError(
      `cannot verify in this process: ${(error as Error).message}`,
      'see what the variables of the service name',
    );
  });
  const verify = async (line: Buffer) => {
    const read = readJson(line, (text) => parseBundleText(text, engine.cache));
    if (read.fault !== undefined)
      return { error: read.error, status: read.fault === 'too_large' ? 413 : 400 };
    const { bundle, body } = read.parsed;
    const now = at === 'call' ? timeOf(bundle) : (at ?? undefined);
    return toVerdict(await engine.verify({ bundle, body, now }), asksForDetails(bundle));
  };
  try {
    return await verifyLines(files, { maxBytes: configuration.maxBodyBytes, verify });
  } finally {
    await engine.close();
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

// Reading waits where twice as much is being judged, or waits to be written. A single line may have more.
const MAX_LINES = 128;
const MAX_BYTES = 8 * 1024 * 1024;
/** Verdicts are written together, unless no other is being waited for. */
const WRITE_CHARACTERS = 64 * 1024;

/**
 * Writes a line for each line of some files, in the same order. Reads no further while the reader of the output does not.
 *
 * @param files `-` is standard input
 * @returns `failed` if a line got no verdict, else `no` if a bundle is not valid, or its body is not what was signed
 * @throws CommandError if a file cannot be read
 */
export async function verifyLines(
  files: readonly string[],
  { maxBytes, verify }: LineVerifier,
  output: Writable = process.stdout,
): Promise<ExitCode> {
  const progress = showProgress(process.stderr, process.stdout);
  let exitCode: ExitCode = EXIT.ok;
  let waiting = 0;
  let gathered = '';
  const take = async (verdict: Verdict | NoVerdict) => {
    const outcome = 'status' in verdict ? EXIT.failed : exitCodeOf(verdict);
    exitCode = Math.max(exitCode, outcome) as ExitCode;
    progress(outcome);
    gathered += `${printableJson(verdict)}\n`;
    if (--waiting > 0 && gathered.length < WRITE_CHARACTERS) return;
    const text = gathered;
    gathered = '';
    await write(output, text);
  };
  // Each verdict is taken after the one before it.
  let last = Promise.resolve();
  let half = last;
  let [lines, bytes] = [0, 0];
  const tooLong = { error: `the line has more than ${maxBytes} bytes (MAX_BODY_BYTES)`, status: 413 };
  for (const file of files) {
    const input = file === '-' ? process.stdin : createReadStream(file);
    try {
      for await (const line of linesOf(input, maxBytes)) {
        waiting++;
        const verdict = line === null ? Promise.resolve(tooLong) : verify(line);
        last = last.then(async () => take(await verdict));
        // If this program fails, it waits for no further line. Each is handled, though none may be awaited.
        for (const promise of [verdict, last])
          promise.catch((error: unknown) => input.destroy(error as Error));
        lines++;
        bytes += line?.length ?? 0;
        if (lines < MAX_LINES && bytes < MAX_BYTES) continue;
        await half;
        half = last;
        [lines, bytes] = [0, 0];
      }
    } catch (error) {
      await last;
      progress();
      throw unreadable(file, 'bundles', error);
    }
  }
  await last;
  progress();
  return exitCode;
}

async function* linesOf(input: Readable, maxBytes: number): AsyncGenerator<Buffer | null> {
  const lines = new Lines(maxBytes);
  const read = function* (found: Iterable<Line>) {
    for (const { bytes, isTooLong } of found) yield isTooLong ? null : bytes;
  };
  for await (const chunk of input as AsyncIterable<Buffer>) yield* read(lines.push(chunk));
  yield* read(lines.end());
}

const INTERVAL_MS = 250;

/**
 * Shows how far a stream of verdicts is, on standard error, if that alone is a terminal: on one, verdicts show it.
 *
 * @returns counts a verdict; without one, shows all and goes to the next line
 */
export function showProgress(stream: NodeJS.WriteStream, verdicts: NodeJS.WriteStream) {
  if (!stream.isTTY || verdicts.isTTY) return () => undefined;
  const counts = { [EXIT.ok]: 0, [EXIT.no]: 0, [EXIT.failed]: 0 };
  let shownAt = performance.now();
  return (outcome?: ExitCode) => {
    if (outcome !== undefined) counts[outcome]++;
    const now = performance.now();
    if (outcome !== undefined && now - shownAt < INTERVAL_MS) return;
    shownAt = now;
    const { [EXIT.ok]: yes, [EXIT.no]: no, [EXIT.failed]: failed } = counts;
    const unknown = failed === 0 ? '' : `, ${failed} without a verdict`;
    const end = outcome === undefined ? '\n' : '';
    stream.write(`\r\u001b[K${yes + no + failed} lines: ${yes} valid, ${no} not valid${unknown}${end}`);
  };
}
