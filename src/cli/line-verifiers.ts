import { decodeUtf8 } from '#platform';
import { DrsClient, DrsClientError } from '../client/index.js';
import { isJsonObject } from '../protocol/json.js';
import { parseCompactJwt } from '../protocol/jwt.js';
import { readConfiguration, type Configuration } from '../service/configuration/configuration.js';
import { readJson } from '../service/http/judged-body.js';
import { openEngine } from '../verifier/create-verifier.js';
import type { Engine } from '../verifier/engine.js';
import { OptionsError } from '../verifier/options.js';
import { asksForDetails, toVerdict } from '../verifier/verdict.js';
import { bodyOf, parseBundleText } from '../verify/receipt-cache.js';
import { CommandError } from './command-error.js';
import type { LineVerifier } from './verify-stream.js';

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
      const outcome = await engine.verify({ bundle, body: bodyOf(read.parsed), now });
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
