import { timed, type Call } from './verify-path.js';

const { openRequest } = await import('../../src/gate/open.js');
const { forwardMcp } = await import('../../src/gate/mcp-forward.js');
const { messageOf } = await import('../../src/relay/message.js');
const { mcpSigner } = await import('../../src/relay/sign.js');
const { decodeUtf8 } = await import('#platform');

/** Opens what a guard does with a line that passes: it is read, decided on, and written anew where it must be. */
export function openGuardPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  return Promise.resolve(
    timed((bytes) => {
      const { value } = messageOf({ bytes, isTooLong: false });
      const text = decodeUtf8(bytes) ?? '';
      const opened = openRequest(
        'mcp',
        {
          ...({ method: 'POST', target: null, headers: new Map(), mayLackHeaders: true } as const),
          body: { kind: 'text', text },
        },
        {},
      );
      if (opened.kind === 'deny')
        return Promise.resolve({ answer: opened.failure.code, answerBytes: opened.failure.message.length });
      forwardMcp(text, null, value);
      return Promise.resolve({ answer: 'pass', answerBytes: 0 });
    }),
  );
}

/** Opens what `sign` does with a line, but for the signing itself. */
export function openSignPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  const signer = mcpSigner(() => Promise.resolve('a'.repeat(2000)), new Set());
  return Promise.resolve(
    timed(async (bytes) => {
      const outcome = await signer.decide(messageOf({ bytes, isTooLong: false }));
      if (typeof outcome !== 'string') return { answer: 'pass', answerBytes: 0 };
      const { error } = JSON.parse(outcome) as { error: { data: { code: string } } };
      return { answer: error.data.code, answerBytes: outcome.length };
    }),
  );
}
