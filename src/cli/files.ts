import { randomUUID } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { chmod, link, rename, rm, stat, writeFile } from 'node:fs/promises';
import { decodeUtf8 } from '#platform';
import { spliceBody } from '../client/request.js';
import { readAtMost } from '../protocol/read-at-most.js';
import { readBundleText } from '../protocol/bundle.js';
import { isJsonObject } from '../protocol/json.js';
import { writtenText } from '../protocol/written-text.js';
import { readJson } from '../relay/message.js';
import { readLinesAt } from '../trust/followed-lines.js';
import { TOOLS } from '../trust/line-files.js';
import { toolsOf } from '../trust/read-tool.js';
import type { Tools } from '../verify/tools.js';
import { CommandError } from './command-error.js';

/** More than any file that a verifier reads. */
const MAX_MIB = 64;

/**
 * Reads a file, or standard input if the name is `-`. Reads at most 64 MiB, also of what has no end.
 *
 * @param what what the file should hold, for the error
 * @param isExact whether each character counts; else it is as {@link writtenText} gives it
 */
export async function readText(file: string, what: string, isExact = false): Promise<string> {
  try {
    const stream: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file);
    const bytes = await readAtMost(stream, MAX_MIB * 1024 * 1024);
    if (bytes !== null) {
      const text = writtenText(bytes);
      return isExact ? (decodeUtf8(bytes) as string) : text;
    }
  } catch (error) {
    throw unreadable(file, what, error);
  }
  throw new CommandError(
    `${nameOf(file)} has more than ${MAX_MIB} MiB, expected ${what} of at most that`,
    'check that it is the right file',
  );
}

/** How messages call a file that is read. */
function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
};

function fileReasonOf(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return REASONS[code] ?? message;
}

export function unreadable(file: string, what: string, error: unknown): CommandError {
  return new CommandError(
    `cannot read ${what} from ${nameOf(file)}: ${fileReasonOf(error)}`,
    'check the name and the permissions of the file',
  );
}

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

/** Reads what an operator says of tools, as in `TOOLS_FILE`; `null` without a file. */
export async function readToolsFile(place: string | undefined): Promise<Tools | null> {
  if (place === undefined) return null;
  try {
    return toolsOf(await readLinesAt(TOOLS, place));
  } catch (error) {
    const found = (error as Error).message.split('\n').join('; ');
    throw new CommandError(`cannot read what tools do: ${found}`, 'correct the file of --tools');
  }
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
    const value = readJson(json);
    if (value === undefined) continue;
    // Only a bundle is sent, however faulty: not the private key of somebody who named the wrong file.
    if (isJsonObject(value) && ['receipts', 'invocation'].some((name) => Object.hasOwn(value, name)))
      return json;
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
  let reason = 'neither JSON nor base64url of JSON';
  try {
    if (/^[[{]/.test(text)) JSON.parse(text);
  } catch (error) {
    reason = (error as SyntaxError).message;
  }
  throw new CommandError(
    `${nameOf(file)} is not a bundle: ${reason}`,
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

export interface WriteOptions {
  readonly force?: boolean | undefined;
  readonly mode?: number;
  /** A note about the file, for standard error. */
  readonly note?: string;
}

/**
 * Refuses a file that exists, unless `force` is set. Ask it before a question to a person and before anything is used up:
 * {@link writeResult} comes last.
 */
export function requireFree(file: string | undefined, { force = false }: Pick<WriteOptions, 'force'>): void {
  if (file === undefined || file === '-' || force || !existsSync(file)) return;
  throw existsAlready(file);
}

function existsAlready(file: string): CommandError {
  return new CommandError(`${file} exists already`, 'choose another name, or add --force to replace it');
}

/** Writes a new file, or to standard output if no file (or `-`) is given. Does not overwrite unless `force` is set. */
export async function writeResult(
  file: string | undefined,
  text: string,
  { force = false, mode = 0o666, note = '' }: WriteOptions = {},
): Promise<void> {
  if (file === undefined || file === '-') {
    process.stdout.write(text);
    return;
  }
  try {
    await moveInto(file, text, { mode, isNew: !force });
    process.stderr.write(`wrote ${file}${note}\n`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw existsAlready(file);
    throw new CommandError(
      `cannot write ${file}: ${fileReasonOf(error)}`,
      'choose a name in a directory you can write to',
    );
  }
}

/** Replaces a file in one step, and keeps its permissions. */
export async function replaceFile(file: string, text: string): Promise<void> {
  const { mode } = await stat(file);
  try {
    await moveInto(file, text, { mode: 0o600, exactMode: mode & 0o777 });
  } catch (error) {
    throw new CommandError(
      `cannot write ${file}: ${fileReasonOf(error)}`,
      'check the permissions of its folder',
    );
  }
}

/** Writes beside a file, and moves it there. Whoever reads it finds all of the text, or what was there before. */
async function moveInto(
  file: string,
  text: string,
  { mode, exactMode = null, isNew = false }: { mode: number; exactMode?: number | null; isNew?: boolean },
): Promise<void> {
  const next = `${file}.${randomUUID()}`;
  try {
    await writeFile(next, text, { flag: 'wx', mode, flush: true });
    if (exactMode !== null) await chmod(next, exactMode);
    // A link never replaces a file. Not every file system has links.
    const linked = isNew ? await link(next, file).catch((error: unknown) => error) : null;
    if (linked instanceof Error && existsSync(file)) throw linked;
    if (linked !== undefined) await rename(next, file);
  } finally {
    await rm(next, { force: true });
  }
}
