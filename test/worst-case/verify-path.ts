import sodium from 'sodium-native';
import { mainThreadMs } from './clock.js';

// A service verifies signatures on other threads, so their time is subtracted. The library must be loaded after this.
let signatureMs = 0;
const verifyDetached = sodium.crypto_sign_verify_detached;
sodium.crypto_sign_verify_detached = (signature, message, publicKey) => {
  const start = mainThreadMs();
  const verified = verifyDetached(signature, message, publicKey);
  signatureMs += mainThreadMs() - start;
  return verified;
};

const { openEngine } = await import('../../src/verifier/create-verifier.js');
const { readVerifierOptions } = await import('../../src/verifier/options.js');
const { toVerdictJson } = await import('../../src/verifier/verdict.js');
const { hasMoreNodes } = await import('../../src/protocol/json.js');
const { decodeUtf8 } = await import('#platform');

/** The result for a body: a code, `valid` with the binding, or `not JSON`. */
export type Answer = string;

/** One call: how long the main thread was busy, without signatures, and the result. */
export interface Call {
  readonly ms: number;
  readonly answer: Answer;
  /** Bytes of the verdict. */
  readonly answerBytes: number;
}

/**
 * Opens a verifier with an empty cache that handles the bytes of a request like `src/service/routes/verify-route.ts`: UTF-8,
 * the limit on nodes, `JSON.parse`, blocks A to F, binding, the verdict as JSON. No socket and no thread is involved.
 */
export async function openVerifyPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  const engine = await openEngine(readVerifierOptions({ workerThreads: 0 }));
  return timed(verify);

  async function verify(bytes: Buffer): Promise<Omit<Call, 'ms'>> {
    const text = decodeUtf8(bytes);
    if (text === null) return { answer: 'not UTF-8', answerBytes: 0 };
    if (hasMoreNodes(text)) return { answer: 'too many nodes', answerBytes: 0 };
    let bundle: unknown;
    try {
      bundle = JSON.parse(text);
    } catch (error) {
      return { answer: 'not JSON', answerBytes: (error as SyntaxError).message.length };
    }
    const hasBody = typeof bundle === 'object' && bundle !== null && Object.hasOwn(bundle, 'body');
    const body = hasBody ? ({ kind: 'member', text, document: bundle as never } as const) : null;
    const outcome = await engine.verify({ bundle, body });
    const json = toVerdictJson(outcome, false);
    const answer = outcome.failure === null ? `valid ${outcome.binding ?? ''}`.trim() : outcome.failure.code;
    return { answer, answerBytes: Buffer.byteLength(json) };
  }
}

/** Measures the main thread's time of each call, without signatures. */
export function timed(run: (bytes: Buffer) => Promise<Omit<Call, 'ms'>>): (bytes: Buffer) => Promise<Call> {
  return async (bytes) => {
    signatureMs = 0;
    const start = mainThreadMs();
    const answer = await run(bytes);
    return { ms: mainThreadMs() - start - signatureMs, ...answer };
  };
}
