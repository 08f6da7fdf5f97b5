import { isJsonObject, type JsonValue } from '../protocol/json.js';
import type { Kind, Reading } from '../protocol/options.js';
import { isAmount } from '../protocol/policy.js';
import { isPlainUri } from '../protocol/resources.js';
import type { Fact, Tool, Tools } from '../verify/tools.js';
import { defectOf, readGiven, unknownMember, type LineDefect, type ReadLine } from './read-root.js';

/** Another argument of the call that says it: its name, or a JSON Pointer (RFC 6901) into `args`, which begins with `/`. */
export interface FromArgument {
  readonly argument: string;
}

/** What an operator says of a tool, as it is in a file. See docs/spec/tools.md for each member. */
export interface ToolLine {
  /** `args.tool` of its calls; `*` for tools without a line. */
  readonly tool: string;
  /** What a call costs, in US dollars. */
  readonly cost_usd?: number | FromArgument;
  /** Whether it changes something, and whether it gives personal data. */
  readonly writes?: boolean | FromArgument;
  readonly pii?: boolean | FromArgument;
  readonly data_class?: string | FromArgument;
  /** The URI that it reads or changes; `before` is put in front of what the argument says. */
  readonly resource?: string | (FromArgument & { readonly before?: string });
}

/** By the member of a line: the argument that policies limit, and which constants there are. */
const FACTS: ReadonlyMap<
  string,
  readonly [argument: string, expected: string, test: (value: unknown) => boolean]
> = new Map([
  ['cost_usd', ['estimated_cost_usd', 'a number of US dollars of at least 0', isAmount]],
  ['writes', ['write_access', 'true or false', (value: unknown) => typeof value === 'boolean']],
  ['pii', ['pii_access', 'true or false', (value: unknown) => typeof value === 'boolean']],
  ['data_class', ['data_class', 'a text', isText]],
  ['resource', ['resource_uri', 'a plain URI', (value: unknown) => isText(value) && isPlainUri(value)]],
]);
const MEMBERS = ['tool', ...FACTS.keys()];
const MAX_TEXT = 1_024;
// Members beyond these are not looked at: no valid line has so many.
const MAX_MEMBERS = 20;

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TEXT && value.isWellFormed();
}

/**
 * Reads a line.
 *
 * @param value a JSON value
 * @param path where it is in its document
 * @returns the tool, or all that is wrong with the line
 */
export function readTool(value: JsonValue, path: LineDefect['path'] = []): ReadLine<Tool> {
  if (!isJsonObject(value)) return [defectOf(value, 'an object with a tool', path)];
  const defects: LineDefect[] = [];
  const facts = new Map<string, Fact>();
  for (const member of Object.keys(value).slice(0, MAX_MEMBERS)) {
    const found = value[member];
    const row = FACTS.get(member);
    if (row !== undefined) {
      const [argument, expected, test] = row;
      const fact = test(found)
        ? { value: found as boolean | number | string }
        : readSource(found, member === 'resource');
      if (fact !== null) facts.set(argument, fact);
      else
        defects.push(defectOf(found, `${expected}, or { "argument": "the name of one" }`, [...path, member]));
    } else if (member !== 'tool') defects.push(unknownMember([...path, member], MEMBERS));
  }
  const { tool } = value;
  if (!isText(tool)) defects.push(defectOf(tool, 'the name of a tool, or "*"', [...path, 'tool']));
  return defects.length > 0 ? defects : { key: tool as string, value: { facts } };
}

function readSource(value: JsonValue | undefined, mayHaveBefore: boolean): Fact | null {
  if (!isJsonObject(value)) return null;
  const { argument, before = '', ...others } = value;
  if (Object.keys(others).length > 0 || !isText(argument)) return null;
  if (value['before'] !== undefined && !(mayHaveBefore && isText(before))) return null;
  return { argument, before: before as string };
}

/** Tools by their names, at the time when they are asked for. */
export function toolsOf(byName: { get(name: string): Tool | undefined }): Tools {
  return {
    of: (name) => (typeof name === 'string' ? byName.get(name) : undefined) ?? byName.get('*') ?? null,
  };
}

/** Makes tools of what a program names. @returns the tools, or what is wrong with them */
export function readGivenTools(given: readonly ToolLine[]): Reading<ReadonlyMap<string, Tool>> {
  return readGiven(given, 'tool', readTool, 'it is in another line, too');
}

// Named, because otherwise the declarations reach the type by way of index.ts, whose types need Node's.
export interface ToolsKind extends Kind<ToolLine[]> {}

/** Lines as in a file, from a program. */
export const tools: ToolsKind = {
  values: 'an array of objects like the lines of a file of tools',
  check: (value) => {
    if (!Array.isArray(value)) return { problem: 'expected an array of lines' };
    const read = readGivenTools(value as ToolLine[]);
    return 'problem' in read ? read : { value: structuredClone(value) as ToolLine[] };
  },
};
