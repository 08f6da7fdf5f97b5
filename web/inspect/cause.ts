import { findNodeAtLocation, parseTree, type JSONPath, type Node } from 'jsonc-parser';
import { CATALOGUE, type Subject } from '../../src/verify/codes.js';
import type { Refusal } from './inspect.js';

/** A part of a text, in characters. */
export interface Mark {
  readonly start: number;
  readonly end: number;
}

/** Where the cause of a failure stands. */
export interface Cause {
  readonly subject: Subject;
  /** Which part of a JWT. */
  readonly part: 'header' | 'payload' | 'signature' | 'all';
  /** Steps to the member in the payload; empty for all of it. */
  readonly path: JSONPath;
}

/** What a message says instead of a member's name. */
const SAID: Readonly<Record<string, { readonly part?: Cause['part']; readonly path: string }>> = {
  'the signature': { part: 'signature', path: '' },
  "the header's alg": { part: 'header', path: 'alg' },
  'the root principal': { path: 'iss' },
  'it is valid from': { path: 'nbf' },
  'it expired at': { path: 'exp' },
  'status list index': { path: 'drs_status_list_index' },
  // The receipt itself, as it is signed.
  'its digest': { part: 'all', path: '' },
  'the state of status list index': { path: 'drs_status_list_index' },
  jti: { path: 'jti' },
};

/**
 * Finds what a failure is about. The catalogue's messages name the member, so that a new code needs no line here.
 *
 * @returns the places, the first of which is the cause; a broken policy has two: the argument, and the limit
 */
export function causesOf({
  code,
  subject,
  member,
  message,
}: Pick<Refusal, 'code' | 'subject' | 'member' | 'message'>): Cause[] {
  const template = CATALOGUE.find((row) => row.code === code)?.message;
  // Of a gate: its codes have no such text.
  if (template === undefined) return [{ subject, part: 'payload', path: pathOf(member ?? '') }];
  if (/malformed: /.test(template)) return [ofMalformed(subject, member, message)];
  const [, named = ''] =
    /^(?:\{subject\}|Invocation):? (.+?)(?: is | are | holds | \{claimed\}| \{time\})/.exec(template) ?? [];
  const name = named.replace('{member}', member ?? '');
  const said = Object.entries(SAID).find(
    ([words]) => template.includes(`: ${words} `) || name === words,
  )?.[1];
  const path = pathOf(said?.path ?? name);
  const cause: Cause = { subject, part: said?.part ?? 'payload', path };
  if (name === 'this call takes') return [{ ...cause, path: ['policy', member ?? ''] }];
  if (path[0] !== 'args') return [cause];
  // "Invocation: args.tool is …, expected what allowed_tools […] allows, the policy of Receipt 1". A permission has the name of its argument.
  const [, limit = path[1] ?? ''] = /expected what (\S+) .* allows\b.*, the policy of/.exec(message) ?? [];
  const level = /the policy of Receipt (\d+)$/.exec(message)?.[1];
  const causes: Cause[] = [{ ...cause, subject: 'invocation' }];
  if (level !== undefined) causes.push({ subject: Number(level), part: 'payload', path: ['policy', limit] });
  return causes;
}

function ofMalformed(subject: Subject, member: string | undefined, message: string): Cause {
  if (member !== undefined) return { subject, part: 'payload', path: pathOf(member) };
  const [, part] = /: its (header|payload|signature) /.exec(message) ?? [];
  return { subject, part: (part ?? 'payload') as Cause['part'], path: [] };
}

/** `policy.max_cost_usd` and `the length of dr_chain` and `dr_chain[2]` as steps. */
function pathOf(name: string): JSONPath {
  return name
    .replace(/^the length of /, '')
    .split(/\.|(?=\[)/)
    .filter((step) => step !== '')
    .map((step) => {
      const [, index] = /^\[(\d+)\]$/.exec(step) ?? [];
      return index === undefined ? step : Number(index);
    });
}

/**
 * Marks a cause in the text of a payload: the member with its name, or as much of the way to it as the text has. A text
 * that is no JSON is marked where it stops being JSON; a name that occurs twice, wherever it stands.
 */
export function marksInJson(text: string, path: JSONPath, message = ''): Mark[] {
  const [, twice] = /the member name (".*?") occurs twice/.exec(message) ?? [];
  if (twice !== undefined) return occurrences(text, twice);
  const errors: { offset: number; length: number }[] = [];
  let tree: Node | undefined;
  try {
    tree = parseTree(text, errors as never);
  } catch {
    return []; // It nests too deep.
  }
  const [error] = errors;
  if (error !== undefined)
    return [
      { start: Math.min(error.offset, text.length - 1), end: error.offset + Math.max(1, error.length) },
    ];
  if (tree === undefined) return [];
  for (let length = path.length; length > 0; length--) {
    const node = findNodeAtLocation(tree, path.slice(0, length));
    if (node === undefined) continue;
    const whole = node.parent?.type === 'property' ? node.parent : node;
    return [{ start: whole.offset, end: whole.offset + whole.length }];
  }
  return [];
}

function occurrences(text: string, part: string): Mark[] {
  const marks: Mark[] = [];
  for (let at = text.indexOf(part); at !== -1 && marks.length < 16; at = text.indexOf(part, at + part.length))
    marks.push({ start: at, end: at + part.length });
  return marks;
}

const PARTS = ['header', 'payload', 'signature'];

/** Marks a part of a JWT, or the first character in it that base64url does not have. */
export function marksInJwt(jwt: string, part: Cause['part']): Mark[] {
  if (part === 'all') return [{ start: 0, end: jwt.length }];
  const segments = jwt.split('.');
  const index = PARTS.indexOf(part);
  const segment = segments[index];
  if (segment === undefined) return [{ start: 0, end: jwt.length }];
  const start = segments.slice(0, index).join('.').length + (index === 0 ? 0 : 1);
  const odd = /[^\w-]/.exec(segment);
  if (odd !== null) return [{ start: start + odd.index, end: start + odd.index + 1 }];
  return [{ start, end: start + segment.length }];
}
