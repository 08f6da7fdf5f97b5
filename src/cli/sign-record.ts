import { appendFileSync } from 'node:fs';
import { decodeBundle } from '../issue/index.js';
import { digestOf } from '../protocol/jwt.js';
import type { SignCall } from '../relay/sign.js';
import { callOf, INSTANCE, printableMessage, readCall } from '../service/observe/logs/verdict-logs.js';
import type { NameOf } from './agreement.js';
import { CommandError } from './command-error.js';

/** What a record says of calls that were not signed, and who is told if it cannot be written. */
interface Signing {
  /** The DID of the key. */
  readonly agent: string;
  readonly toolServer: string;
  readonly nameOf: NameOf;
  readonly note: (message: string) => void;
}

/**
 * Signs, and adds a line for each call to a file: what was signed under which receipts, or why it was not. Each line is written
 * before the call is sent, and the file may be moved away at any time.
 *
 * @throws CommandError if the file cannot be written to
 */
export function recordingTo(file: string, sign: SignCall, signing: Signing): SignCall {
  const { agent, toolServer, nameOf, note } = signing;
  const append = (text: string) => appendFileSync(file, text, { mode: 0o640 });
  try {
    append('');
  } catch (error) {
    throw new CommandError(
      `cannot write the record ${file}: ${(error as Error).message}`,
      'name a file in a folder you can write to',
    );
  }
  return async (command, args, what) => {
    const signed = await sign(command, args, what);
    const written = { time: new Date().toISOString(), instance: INSTANCE, endpoint: 'sign' };
    let facts: object;
    if (typeof signed === 'string') {
      const bundle = decodeBundle(signed);
      const call = readCall(bundle, (did) => nameOf(did) ?? undefined);
      facts = { receipts: bundle.receipts.map(digestOf), ...call };
    } else {
      const { code, message } = signed;
      const claims = { iss: agent, args, cmd: command, tool_server: toolServer };
      facts = { code, message: printableMessage(message), ...callOf({ rootPrincipal: null }, claims) };
    }
    try {
      append(`${JSON.stringify({ ...written, ...facts })}\n`);
    } catch (error) {
      note(`a line of the record was lost: ${(error as Error).message}`);
    }
    return signed;
  };
}
