import { digestOf } from '../encoding.js';
import { readJson, writeJson, type Json, type JsonObject } from '../json.js';
import { forge, signWith, type Forgery } from './keys.js';

/** A receipt or an invocation, and the key that signs it. Its links to the chain are filled in when it is built. */
export interface Link {
  readonly key: number;
  readonly claims: JsonObject;
}

/** A receipt of the chain, or the invocation. */
export type Place = number | 'invocation';
export type Path = readonly (string | number)[];

/** One change to a valid bundle. */
export type Edit =
  /**
   * Sets a claim to a JSON text, removes it (no text), or adds it a second time. `sign`: the token is signed again.
   * `relink`: the following receipts refer to the changed one.
   */
  | {
      readonly kind: 'claim';
      readonly at: Place;
      readonly path: Path;
      readonly text?: string;
      readonly twice?: boolean;
      readonly sign: boolean;
      readonly relink: boolean;
    }
  /** Replaces the header, and signs again. */
  | { readonly kind: 'header'; readonly at: Place; readonly text: string }
  /** Replaces the text of the payload, and signs again. */
  | { readonly kind: 'payload'; readonly at: Place; readonly change: PayloadChange }
  /** Replaces the signature. */
  | { readonly kind: 'signature'; readonly at: Place; readonly forgery: Forgery }
  /** Replaces the text of the token. The following receipts refer to the new text. */
  | { readonly kind: 'token'; readonly at: Place; readonly change: TokenChange }
  /** Replaces the bundle's list of receipts, given by their numbers. */
  | { readonly kind: 'order'; readonly order: readonly number[] }
  /** Sets or removes a member of the bundle. */
  | { readonly kind: 'bundle'; readonly path: Path; readonly text?: string };

/** The description of a bundle. It is reproducible, and can be shrunk. */
export interface Recipe {
  readonly links: readonly Link[];
  readonly call: Link;
  readonly edits: readonly Edit[];
  /** The body of the call as text; it need not be JSON. */
  readonly body?: string;
}

const HEADER = '{"alg":"EdDSA","typ":"JWT"}';

export const PAYLOAD_CHANGES = {
  'byte order mark': (text: string) => Buffer.from(`\ufeff${text}`),
  'white space': (text: string) => Buffer.from(` ${text.replace('{', '{\n\t')}\r\n`),
  'form feed': (text: string) => Buffer.from(`\f${text}`),
  'text after it': (text: string) => Buffer.from(`${text}{}`),
  'comma at its end': (text: string) => Buffer.from(text.replace(/\}$/, ',}')),
  'in an array': (text: string) => Buffer.from(`[${text}]`),
  'cut off': (text: string) => Buffer.from(text.slice(0, -1)),
  'bytes that are no UTF-8': (text: string) =>
    Buffer.concat([Buffer.from(`${text.slice(0, -1)},"x":"`), Buffer.from([0xff]), Buffer.from('"}')]),
  'an encoded surrogate': (text: string) =>
    Buffer.concat([
      Buffer.from(`${text.slice(0, -1)},"x":"`),
      Buffer.from([0xed, 0xa0, 0x80]),
      Buffer.from('"}'),
    ]),
  'a replacement character': (text: string) => Buffer.from(`${text.slice(0, -1)},"x":"\ufffd"}`),
  'a lone surrogate': (text: string) => Buffer.from(`${text.slice(0, -1)},"x":"\\ud800"}`),
  'escaped names': (text: string) => Buffer.from(text.replace('"iss"', '"\\u0069ss"')),
  'escaped name twice': (text: string) => Buffer.from(`${text.slice(0, -1)},"\\u0069ss":"x"}`),
  'a control character': (text: string) => Buffer.from(`${text.slice(0, -1)},"x":"\u0001"}`),
  'nested 63 deep': (text: string) => nested(text, 63),
  'nested 64 deep': (text: string) => nested(text, 64),
  'nested in objects': (text: string) =>
    Buffer.from(`${text.slice(0, -1)},"x":${'{"a":'.repeat(64)}1${'}'.repeat(64)}}`),
  'duplicate far down': (text: string) => Buffer.from(`${text.slice(0, -1)},"x":[[{"a":{"b":1,"b":1}}]]}`),
  '__proto__ twice': (text: string) => Buffer.from(`${text.slice(0, -1)},"__proto__":1,"__proto__":1}`),
  __proto__: (text: string) => Buffer.from(`${text.slice(0, -1)},"__proto__":{"iss":1,"exp":null}}`),
  'a huge number': (text: string) => Buffer.from(`${text.slice(0, -1)},"x":1e400}`),
  'a leading zero': (text: string) => Buffer.from(`${text.slice(0, -1)},"x":01}`),
} as const;
export type PayloadChange = keyof typeof PAYLOAD_CHANGES;

/** The braces of the payload count as the first level. */
const nested = (text: string, depth: number) =>
  Buffer.from(`${text.slice(0, -1)},"x":${'['.repeat(depth)}${']'.repeat(depth)}}`);

const segment = (token: string, number: number, change: (text: string) => string) =>
  token
    .split('.')
    .map((text, at) => (at === number ? change(text) : text))
    .join('.');

export const TOKEN_CHANGES = {
  padding: (token: string) => segment(token, 1, (text) => `${text}=`),
  'white space': (token: string) => ` ${token}`,
  'new line': (token: string) => `${token}\n`,
  'no signature': (token: string) => segment(token, 2, () => ''),
  'no header': (token: string) => segment(token, 0, () => ''),
  'no payload': (token: string) => segment(token, 1, () => ''),
  'two segments': (token: string) => token.split('.').slice(0, 2).join('.'),
  'four segments': (token: string) => `${token}.AAAA`,
  'a dot at its end': (token: string) => `${token}.`,
  'trailing bits': (token: string) =>
    segment(token, 2, (text) => `${text.slice(0, -1)}${text.endsWith('g') ? 'h' : 'B'}`),
  'one character more': (token: string) => segment(token, 2, (text) => `${text}AAA`),
  'another alphabet': (token: string) =>
    segment(token, 2, (text) => text.replaceAll('-', '+').replaceAll('_', '/')),
  'not ASCII': (token: string) => segment(token, 2, (text) => `${text.slice(0, -4)}éééé`),
  empty: () => '',
  'no token': () => 'x',
} as const;
export type TokenChange = keyof typeof TOKEN_CHANGES;

/** Builds the bundle of a recipe as JSON, without the body. */
export function buildBundle(recipe: Recipe): Json {
  const receipts: string[] = [];
  let previous: string | undefined;
  const chain: string[] = [];
  for (const [index, link] of recipe.links.entries()) {
    const linked = setMember(
      link.claims,
      'prev_dr_hash',
      toJson(previous === undefined ? null : digestOf(previous)),
    );
    const { token, original } = buildToken({ key: link.key, claims: linked }, index, recipe.edits);
    receipts.push(token);
    previous = original;
    chain.push(digestOf(original));
  }
  const call = { key: recipe.call.key, claims: setMember(recipe.call.claims, 'dr_chain', toJson(chain)) };
  const { token } = buildToken(call, 'invocation', recipe.edits);
  let bundle: Json = {
    kind: 'object',
    members: [
      ['bundle_version', toJson('4.0')],
      ['invocation', toJson(token)],
      ['receipts', toJson(receipts)],
    ],
  };
  for (const edit of recipe.edits) {
    if (edit.kind === 'order' && bundle.kind === 'object')
      bundle = setMember(bundle, 'receipts', toJson(edit.order.map((number) => receipts[number] ?? '')));
    if (edit.kind === 'bundle') bundle = editAt(bundle, edit.path, edit.text, false);
  }
  return bundle;
}

/** Builds a token: as it is sent, and as the rest of the chain refers to it. */
function buildToken(link: Link, at: Place, all: readonly Edit[]): { token: string; original: string } {
  const edits = all.filter((edit) => 'at' in edit && edit.at === at);
  let header = HEADER;
  let claims: Json = link.claims;
  let payload = (text: string): Buffer => Buffer.from(text);
  let signature = (signed: string): Buffer => signWith(link.key, signed);
  let change = (token: string) => token;
  const sound = assemble(HEADER, Buffer.from(writeJson(link.claims)), signature);
  let relink = true;
  for (const edit of edits) {
    if (edit.kind === 'claim') {
      claims = editAt(claims, edit.path, edit.text, edit.twice === true);
      relink &&= edit.relink;
      if (!edit.sign) signature = () => Buffer.from(sound.split('.')[2] ?? '', 'base64url');
    }
    if (edit.kind === 'header') header = edit.text;
    if (edit.kind === 'payload') payload = PAYLOAD_CHANGES[edit.change];
    if (edit.kind === 'signature') signature = (signed) => forge(edit.forgery, link.key, signed);
    if (edit.kind === 'token') change = TOKEN_CHANGES[edit.change];
  }
  const token = edits.length === 0 ? sound : change(assemble(header, payload(writeJson(claims)), signature));
  return { token, original: relink ? token : sound };
}

function assemble(header: string, payload: Buffer, signature: (signed: string) => Buffer): string {
  const signed = `${Buffer.from(header).toString('base64url')}.${payload.toString('base64url')}`;
  return `${signed}.${signature(signed).toString('base64url')}`;
}

export const toJson = (value: null | string | number | readonly string[]): Json =>
  value === null
    ? { kind: 'null' }
    : typeof value === 'string'
      ? { kind: 'string', value }
      : typeof value === 'number'
        ? { kind: 'number', text: String(value) }
        : { kind: 'array', items: value.map((item) => ({ kind: 'string', value: item })) };

/** Parses a JSON text that the generator made. */
export function parse(text: string): Json {
  const json = readJson(text);
  if (json === undefined) throw new Error(`the generator wrote a text that is not JSON: ${text}`);
  return json;
}

export function setMember(object: Json, name: string, value: Json): JsonObject {
  if (object.kind !== 'object') throw new TypeError('no object');
  const at = object.members.findIndex(([key]) => key === name);
  const members = [...object.members];
  members[at < 0 ? members.length : at] = [name, value];
  return { kind: 'object', members };
}

/** Sets, removes or repeats the value at a path. Has no effect if there is no such path. */
export function editAt(json: Json, path: Path, text: string | undefined, twice: boolean): Json {
  const [step, ...rest] = path;
  if (step === undefined) return text === undefined ? json : parse(text);
  if (json.kind === 'array' && typeof step === 'number') {
    const items = json.items.flatMap((item, at) =>
      at !== step ? [item] : rest.length === 0 && text === undefined ? [] : [editAt(item, rest, text, twice)],
    );
    if (step >= items.length && rest.length === 0 && text !== undefined) items.push(parse(text));
    return { kind: 'array', items };
  }
  if (json.kind !== 'object' || typeof step !== 'string') return json;
  if (rest.length > 0) {
    const members = json.members.map(
      ([name, value]) => [name, name === step ? editAt(value, rest, text, twice) : value] as const,
    );
    return { kind: 'object', members };
  }
  if (text === undefined) return { kind: 'object', members: json.members.filter(([name]) => name !== step) };
  if (twice) return { kind: 'object', members: [...json.members, [step, parse(text)]] };
  return setMember(json, step, parse(text));
}
