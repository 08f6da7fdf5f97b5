import { readFile, realpath } from 'node:fs/promises';
import { applyEdits, findNodeAtLocation, modify, parseTree, type Node, type ParseError } from 'jsonc-parser';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { CommandError } from '../command-error.js';
import { readText } from '../files.js';
import type { EntryChange } from './entry.js';

/** The member of a host's file that has its servers. */
const SERVERS = 'mcpServers';

/** The configuration of an MCP host. */
export interface HostFile {
  /** Without symbolic links. */
  readonly file: string;
  readonly text: string;
}

/** Reads a host's configuration. */
export async function readHostFile(file: string): Promise<HostFile> {
  const real = await realpath(file).catch(() => file);
  return { file: real, text: await readText(real, "a host's configuration") };
}

/** An entry of a host's configuration, and where it stands in the text. */
export interface Entry {
  readonly value: JsonObject;
  readonly node: Node;
}

/**
 * Finds an entry of `mcpServers`.
 *
 * @param name `undefined` if there is only one
 * @throws CommandError that says what is there instead
 */
export function findEntry(
  { file, text }: HostFile,
  name: string | undefined,
): Entry & { readonly name: string } {
  const wrong = (found: string, hint: string) => new CommandError(`${file} ${found}`, hint);
  const errors: ParseError[] = [];
  const tree = parseTree(text, errors, { allowTrailingComma: true });
  if (tree === undefined || errors.length > 0)
    throw wrong(`is not JSON (comments are fine): ${placeOf(text, errors[0]?.offset ?? 0)}`, 'mend it first');
  const servers = findNodeAtLocation(tree, [SERVERS]);
  if (servers?.type !== 'object') {
    const found = (tree.children ?? []).map(({ children }) => String(children?.[0]?.value)).slice(0, 8);
    throw wrong(
      `has no object ${SERVERS}; it has ${found.length === 0 ? 'no member' : found.join(', ')}`,
      `give the file in which your host lists its servers under ${SERVERS}`,
    );
  }
  const names = (servers.children ?? []).map(({ children }) => String(children?.[0]?.value));
  const list = names.map((one) => JSON.stringify(one)).join(', ');
  const wanted = name ?? (names.length === 1 ? names[0] : undefined);
  if (wanted === undefined) throw wrong(`has the servers ${list}`, 'name one of them with --server');
  const count = names.filter((one) => one === wanted).length;
  if (count !== 1)
    throw wrong(
      `has ${count === 0 ? 'no' : 'more than one'} server ${JSON.stringify(wanted)}, but ${list}`,
      'name another one with --server',
    );
  const node = findNodeAtLocation(tree, [SERVERS, wanted]) as Node;
  const value = valueOf(node);
  if (!isJsonObject(value))
    throw wrong(`has a server ${JSON.stringify(wanted)} that is not an object`, 'mend it first');
  // The first would be changed, and a host may read the last.
  const twice = [...nameTwice(tree), ...nameTwice(node)];
  if (twice.length > 0) throw wrong(`has the member ${twice.join(', ')} more than once`, 'mend it first');
  return { name: wanted, node, value };
}

/** The names that an object has more than once, as JSON. */
function nameTwice({ children = [] }: Node): string[] {
  const names = children.map((member) => JSON.stringify(member.children?.[0]?.value));
  return names.filter((name, at) => names.indexOf(name) < at);
}

function valueOf(node: Node): JsonValue {
  switch (node.type) {
    case 'object':
      return Object.fromEntries(
        (node.children ?? []).map(({ children }) => [
          String(children?.[0]?.value),
          valueOf(children?.[1] as Node),
        ]),
      );
    case 'array':
      return (node.children ?? []).map(valueOf);
    default:
      return node.value as JsonValue;
  }
}

/** Changes members of an entry. All else of the text stays as it is, byte for byte. */
export function changeEntry(text: string, name: string, change: EntryChange): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const indent = /^[ \t]+(?=")/m.exec(text)?.[0] ?? '  ';
  const formattingOptions = {
    insertSpaces: !indent.includes('\t'),
    tabSize: indent.includes('\t') ? 1 : indent.length,
    eol,
  };
  return Object.entries(change).reduce(
    (changed, [member, value]) =>
      applyEdits(changed, modify(changed, [SERVERS, name, member], value, { formattingOptions })),
    text,
  );
}

/** Puts a text in the place of an entry. */
export function replaceEntry(text: string, { node }: Entry, replacement: string): string {
  return text.slice(0, node.offset) + replacement + text.slice(node.offset + node.length);
}

/** Where the copy is kept that was made before an entry was changed. */
export function copyOf(file: string, name: string): string {
  return `${file}.before-sign-${encodeURIComponent(name)}`;
}

/** The text of a copy; `null` if there is none. */
export async function readCopy(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    return null;
  }
}

/** Where a character of a text is. */
function placeOf(text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n');
  return `line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`;
}
