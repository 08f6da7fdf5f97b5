/**
 * JSON as it was written: numbers keep their text, and objects keep all members in order, including repeated names.
 * `JSON.parse` hides what the specification is about, so the oracle has its own parser.
 */
export type Json =
  | { readonly kind: 'null' }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'array'; readonly items: readonly Json[] }
  | JsonObject;

export interface JsonObject {
  readonly kind: 'object';
  readonly members: readonly (readonly [name: string, value: Json])[];
}

/** The value of a member. If the name repeats, the last one counts, as in `JSON.parse`. */
export function member(object: JsonObject, name: string): Json | undefined {
  return object.members.findLast(([key]) => key === name)?.[1];
}

/** Whether any object in a value has the same name twice. */
export function hasDuplicateNames(json: Json): boolean {
  if (json.kind === 'array') return json.items.some(hasDuplicateNames);
  if (json.kind !== 'object') return false;
  const names = new Set(json.members.map(([name]) => name));
  return names.size < json.members.length || json.members.some(([, value]) => hasDuplicateNames(value));
}

/** The nesting depth of arrays and objects: 0 for a number, 1 for `{}`, 2 for `[{}]`. */
export function depthOf(json: Json): number {
  if (json.kind === 'array') return 1 + Math.max(0, ...json.items.map(depthOf));
  if (json.kind === 'object') return 1 + Math.max(0, ...json.members.map(([, value]) => depthOf(value)));
  return 0;
}

/** The number of objects, arrays and members in a value, and of the commas between members and elements. */
export function sizeOf(json: Json): { nodes: number; commas: number } {
  if (json.kind !== 'array' && json.kind !== 'object') return { nodes: 0, commas: 0 };
  const parts = json.kind === 'array' ? json.items : json.members.map(([, value]) => value);
  let nodes = json.kind === 'array' ? 1 : 1 + parts.length;
  let commas = Math.max(0, parts.length - 1);
  for (const part of parts.map(sizeOf)) {
    nodes += part.nodes;
    commas += part.commas;
  }
  return { nodes, commas };
}

/** Reads a JSON text exactly as RFC 8259 says; `undefined` if it is not JSON. */
export function readJson(text: string): Json | undefined {
  const reader = new Reader(text);
  try {
    return reader.whole();
  } catch (error) {
    if (error instanceof NotJson) return undefined;
    throw error;
  }
}

/** Converts a JavaScript value, as `JSON.parse` makes it. */
export function fromValue(value: unknown): Json {
  if (value === null) return { kind: 'null' };
  if (typeof value === 'boolean') return { kind: 'boolean', value };
  if (typeof value === 'string') return { kind: 'string', value };
  if (typeof value === 'number') {
    // JSON.parse makes an infinity of 1e400. Any text that overflows will do.
    if (!Number.isFinite(value)) return { kind: 'number', text: value < 0 ? '-1e999' : '1e999' };
    return { kind: 'number', text: Object.is(value, -0) ? '-0' : String(value) };
  }
  if (Array.isArray(value)) return { kind: 'array', items: value.map(fromValue) };
  if (typeof value === 'object')
    return {
      kind: 'object',
      members: Object.entries(value).map(([name, item]) => [name, fromValue(item)] as const),
    };
  throw new TypeError(`${typeof value} is no JSON`);
}

/** Writes a value as it was read: numbers with their text, and all members in order, including repeated names. */
export function writeJson(json: Json): string {
  switch (json.kind) {
    case 'null':
      return 'null';
    case 'boolean':
      return String(json.value);
    case 'number':
      return json.text;
    case 'string':
      return JSON.stringify(json.value);
    case 'array':
      return `[${json.items.map(writeJson).join(',')}]`;
    case 'object':
      return `{${json.members.map(([name, value]) => `${JSON.stringify(name)}:${writeJson(value)}`).join(',')}}`;
  }
}

class NotJson extends Error {}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

class Reader {
  private at = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  whole(): Json {
    const json = this.value();
    this.space();
    if (this.at < this.text.length) throw new NotJson();
    return json;
  }

  private value(): Json {
    this.space();
    const next = this.text[this.at];
    if (next === '{') return this.object();
    if (next === '[') return this.array();
    if (next === '"') return { kind: 'string', value: this.string() };
    if (this.take('null')) return { kind: 'null' };
    if (this.take('true')) return { kind: 'boolean', value: true };
    if (this.take('false')) return { kind: 'boolean', value: false };
    return this.number();
  }

  private object(): JsonObject {
    const members: (readonly [string, Json])[] = [];
    this.expect('{');
    this.space();
    if (this.take('}')) return { kind: 'object', members };
    do {
      this.space();
      const name = this.string();
      this.space();
      this.expect(':');
      members.push([name, this.value()]);
      this.space();
    } while (this.take(','));
    this.expect('}');
    return { kind: 'object', members };
  }

  private array(): Json {
    const items: Json[] = [];
    this.expect('[');
    this.space();
    if (this.take(']')) return { kind: 'array', items };
    do {
      items.push(this.value());
      this.space();
    } while (this.take(','));
    this.expect(']');
    return { kind: 'array', items };
  }

  private string(): string {
    this.expect('"');
    let value = '';
    for (;;) {
      const character = this.text[this.at++];
      if (character === undefined || character < ' ') throw new NotJson();
      if (character === '"') return value;
      if (character !== '\\') {
        value += character;
        continue;
      }
      const escape = this.text[this.at++] ?? '';
      if (escape === 'u') {
        const digits = this.text.slice(this.at, this.at + 4);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new NotJson();
        value += String.fromCharCode(parseInt(digits, 16));
        this.at += 4;
      } else {
        const plain = ESCAPES[escape];
        if (plain === undefined) throw new NotJson();
        value += plain;
      }
    }
  }

  private number(): Json {
    const pattern = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
    pattern.lastIndex = this.at;
    const text = pattern.exec(this.text)?.[0];
    if (text === undefined) throw new NotJson();
    this.at += text.length;
    return { kind: 'number', text };
  }

  private space(): void {
    while (' \t\n\r'.includes(this.text[this.at] ?? '?')) this.at++;
  }

  private take(text: string): boolean {
    if (!this.text.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }

  private expect(text: string): void {
    if (!this.take(text)) throw new NotJson();
  }
}
