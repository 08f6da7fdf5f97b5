import { spliceBody } from '../client/request.js';
import { readBundleText } from '../protocol/bundle.js';
import { isJsonObject } from '../protocol/json.js';
import { CommandError } from './command-error.js';
import { nameOf, parseJson, readText } from './files.js';

const JWT_LINE = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * A chain as a file: one receipt (compact JWT) a line, root first. A chain of one is a plain `.jwt` file.
 *
 * @example chainText([root, sub]); // 'eyJ…\neyJ…\n'
 */
export function chainText(receipts: readonly string[]): string {
  return receipts.map((jwt) => `${jwt}\n`).join('');
}

/** The receipts of a chain file, root first; `null` if some line is no JWT, or there is none. */
export function receiptsOf(text: string): string[] | null {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return lines.length > 0 && lines.every((line) => JWT_LINE.test(line)) ? lines : null;
}

/** Reads a chain file as `npx drs-verify issue` and `npx drs-verify delegate` write it. */
export async function readChainFile(file: string): Promise<string[]> {
  const receipts = receiptsOf(await readText(file, 'a chain of receipts'));
  if (receipts !== null) return receipts;
  throw new CommandError(
    `${file} is not a chain of receipts: expected one compact JWT a line, root first`,
    'give the file that `npx drs-verify issue` or `npx drs-verify delegate` wrote with -o',
  );
}

/**
 * Returns the JSON text of a bundle, which is given as JSON or in the form of the `X-DRS-Bundle` header. The text is
 * not changed, since the service must see what a parser would hide.
 *
 * @param file the name of the file, for errors
 */
export function bundleTextOf(content: string, file: string): string {
  const text = content.trim();
  const read = readBundleText(text);
  for (const json of read.defect === undefined ? [text, read.text] : [text]) {
    const { value } = parseJson(json);
    if (value === undefined) continue;
    const isBundle = ['receipts', 'invocation'].some((name) => Object.hasOwn(value ?? {}, name));
    // Only a bundle is sent, however faulty: not the private key of somebody who named the wrong file.
    if (isJsonObject(value) && isBundle) return json;
    throw new CommandError(
      `${nameOf(file)} has neither receipts nor an invocation, expected a bundle`,
      'name the file that `npx drs-verify invoke` wrote',
    );
  }
  if (receiptsOf(text) !== null)
    throw new CommandError(
      `${nameOf(file)} holds receipts but no invocation, expected a bundle`,
      'make a bundle with `npx drs-verify invoke`; `npx drs-verify audit` shows a chain too',
    );
  const error = /^[[{]/.test(text) ? parseJson(text).error : 'neither JSON nor base64url of JSON';
  throw new CommandError(
    `${nameOf(file)} is not a bundle: ${error}`,
    'give a JSON bundle, or the value of an X-DRS-Bundle header, as `npx drs-verify invoke` writes them',
  );
}

/**
 * Puts the unchanged text of a request body into a bundle, as its member `body`.
 *
 * @param bundle as {@link bundleTextOf} gives it
 * @throws CommandError if the body is not JSON (it could add members to the bundle), or the bundle already has a body
 */
export function withBody(bundle: string, body: string): string {
  if (Object.hasOwn(JSON.parse(bundle) as object, 'body'))
    throw new CommandError(
      'the bundle has a body already',
      'leave out --body, or remove the body from the bundle',
    );
  try {
    return spliceBody(bundle, body);
  } catch (error) {
    throw new CommandError(
      `the body is not JSON: ${(error as SyntaxError).message}`,
      'give the request body exactly as the tool server received it; one that is not JSON never matches',
    );
  }
}
