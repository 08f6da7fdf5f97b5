import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, parseAllDocuments, stringify } from 'yaml';

/**
 * Renders the chart with the part of Helm's template language that it uses. Helm is not installed where the tests run. What
 * this does not know is an error, so a template cannot use more than is checked here.
 */
const CHART = fileURLToPath(new URL('../../deploy/helm/drs-verify/', import.meta.url));
const read = (file: string) => readFileSync(path.join(CHART, file), 'utf8');

/** Values of the chart. */
export type Values = Record<string, unknown>;

/** A Kubernetes object. */
export type Manifest = Readonly<Record<string, unknown>> & { readonly kind: string };

export const DEFAULTS = parse(read('values.yaml')) as Values;
export const SCHEMA = JSON.parse(read('values.schema.json')) as object;

type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'show'; readonly expression: string }
  | { readonly kind: 'if'; readonly expression: string; readonly then: Node[]; readonly otherwise: Node[] }
  | {
      readonly kind: 'range';
      readonly names: readonly [string, string];
      readonly expression: string;
      readonly each: Node[];
    };

interface Scope {
  /** `.`, and the named templates. */
  readonly dot: Values;
  readonly templates: ReadonlyMap<string, Node[]>;
  readonly variables: Readonly<Record<string, unknown>>;
}

type Token = { readonly text: string } | { readonly action: string };

function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  let trimNext = false;
  let from = 0;
  for (const found of source.matchAll(/\{\{(- )?\s*(.*?)\s*( -)?\}\}/gs)) {
    const [whole, trimBefore, action = '', trimAfter] = found;
    let text = source.slice(from, found.index);
    if (trimNext) text = text.trimStart();
    if (trimBefore !== undefined) text = text.trimEnd();
    tokens.push({ text });
    if (!/^\/\*.*\*\/$/s.test(action)) tokens.push({ action });
    trimNext = trimAfter !== undefined;
    from = found.index + whole.length;
  }
  const rest = source.slice(from);
  tokens.push({ text: trimNext ? rest.trimStart() : rest });
  return tokens;
}

/** Parses up to the `end` or `else` of the block that it is in. */
function parseBlock(tokens: Token[], templates: Map<string, Node[]>): { nodes: Node[]; end: string | null } {
  const nodes: Node[] = [];
  for (let token = tokens.shift(); token !== undefined; token = tokens.shift()) {
    if ('text' in token) {
      nodes.push({ kind: 'text', text: token.text });
      continue;
    }
    const { action } = token;
    const [word = ''] = action.split(' ', 1);
    const expression = action.slice(word.length).trim();
    if (word === 'end' || word === 'else') {
      if (expression !== '') throw new Error(`{{ ${action} }} is not known here`);
      return { nodes, end: word };
    }
    if (word === 'define') {
      templates.set(JSON.parse(expression) as string, parseBlock(tokens, templates).nodes);
    } else if (word === 'if') {
      const { nodes: then, end } = parseBlock(tokens, templates);
      const otherwise = end === 'else' ? parseBlock(tokens, templates).nodes : [];
      nodes.push({ kind: 'if', expression, then, otherwise });
    } else if (word === 'range') {
      const [, key = '', value = '', over] = /^\$(\w+), \$(\w+) := (.+)$/.exec(expression) ?? [];
      if (over === undefined) throw new Error(`{{ ${action} }} is not known here`);
      nodes.push({
        kind: 'range',
        names: [key, value],
        expression: over,
        each: parseBlock(tokens, templates).nodes,
      });
    } else nodes.push({ kind: 'show', expression: action });
  }
  return { nodes, end: null };
}

const isTrue = (value: unknown) =>
  Array.isArray(value)
    ? value.length > 0
    : typeof value === 'object' && value !== null
      ? Object.keys(value).length > 0
      : Boolean(value);
/** A scalar as a template shows it. Maps and lists go through `toYaml`. */
const shown = (value: unknown) =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
const sum = (...numbers: unknown[]) => (numbers as number[]).reduce((total, number) => total + number, 0);

const FUNCTIONS: Readonly<Record<string, (...values: never[]) => unknown>> = {
  quote: (value: unknown) => JSON.stringify(shown(value)),
  nindent: (spaces: number, text: string) => `\n${text.replace(/^/gm, ' '.repeat(spaces))}`,
  toYaml: (value: unknown) => stringify(value, { lineWidth: 0 }).trimEnd(),
  add: sum,
  div: (a: number, b: number) => Math.trunc(a / b),
  int: (value: unknown) => Math.trunc(Number(value)),
  not: (value: unknown) => !isTrue(value),
  or: (...values: unknown[]) => values.find(isTrue) ?? values.at(-1),
  eq: (a: unknown, b: unknown) => a === b,
  ne: (a: unknown, b: unknown) => a !== b,
  gt: (a: number, b: number) => a > b,
  ternary: (yes: unknown, no: unknown, which: boolean) => (which ? yes : no),
};

/** Members of `.Values` that a user may leave out. */
const OPTIONAL = /^\.Values\.env\.\w+$/;

function evaluate(expression: string, scope: Scope): unknown {
  const words = expression.match(/"[^"]*"|[()|]|[^\s()|]+/g) ?? [];
  const pipeline = (): unknown => {
    let value = command();
    while (words[0] === '|') {
      words.shift();
      value = command([value]);
    }
    return value;
  };
  const operand = (): unknown => {
    const word = words.shift() ?? '';
    if (word === '(') {
      const value = pipeline();
      if (words.shift() !== ')') throw new Error(`${expression}: no ")"`);
      return value;
    }
    if (word.startsWith('"')) return JSON.parse(word);
    if (/^\d+$/.test(word)) return Number(word);
    if (word === '.') return scope.dot;
    if (/^\$\w+$/.test(word) && word.slice(1) in scope.variables) return scope.variables[word.slice(1)];
    if (!/^(\.\w+)+$/.test(word)) throw new Error(`${expression}: "${word}" is not known here`);
    const value = word
      .slice(1)
      .split('.')
      .reduce<unknown>((inside, name) => (inside as Values | undefined)?.[name], scope.dot);
    if (value === undefined && !OPTIONAL.test(word)) throw new Error(`${expression}: ${word} has no value`);
    return value;
  };
  const command = (last: unknown[] = []): unknown => {
    const [name = ''] = words;
    const isFunction = name === 'include' || name in FUNCTIONS;
    if (!isFunction) return operand();
    words.shift();
    const values: unknown[] = [];
    while (words.length > 0 && words[0] !== '|' && words[0] !== ')') values.push(operand());
    values.push(...last);
    if (name !== 'include') return (FUNCTIONS[name] as (...given: unknown[]) => unknown)(...values);
    const [template, dot] = values as [string, Values];
    const nodes = scope.templates.get(template);
    if (nodes === undefined) throw new Error(`there is no template "${template}"`);
    return show(nodes, { ...scope, dot, variables: {} });
  };
  const value = pipeline();
  if (words.length > 0) throw new Error(`${expression}: "${words.join(' ')}" is left over`);
  return value;
}

function show(nodes: readonly Node[], scope: Scope): string {
  return nodes
    .map((node) => {
      switch (node.kind) {
        case 'text':
          return node.text;
        case 'show':
          return shown(evaluate(node.expression, scope));
        case 'if':
          return show(isTrue(evaluate(node.expression, scope)) ? node.then : node.otherwise, scope);
        case 'range':
          return Object.entries(evaluate(node.expression, scope) as Values)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, value]) => {
              const [first, second] = node.names;
              return show(node.each, {
                ...scope,
                variables: { ...scope.variables, [first]: key, [second]: value },
              });
            })
            .join('');
      }
    })
    .join('');
}

const isMap = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The default values, with others in their places. */
export function valuesWith(given: Values, defaults: Values = DEFAULTS): Values {
  const merged = { ...defaults };
  for (const [name, value] of Object.entries(given)) {
    const before = merged[name];
    merged[name] = isMap(value) && isMap(before) ? valuesWith(value, before) : value;
  }
  return merged;
}

/** The text of each template, by its file. */
export function renderChart(given: Values = {}): Record<string, string> {
  const templates = new Map<string, Node[]>();
  const files = readdirSync(path.join(CHART, 'templates')).sort();
  const parsed = files.map((file): [string, Node[]] => [
    file,
    parseBlock(tokensOf(read(`templates/${file}`)), templates).nodes,
  ]);
  const chart = parse(read('Chart.yaml')) as { name: string; appVersion: string };
  const dot = {
    Values: valuesWith(given),
    Release: { Name: 'gate', Namespace: 'agents', Service: 'Helm' },
    Chart: { Name: chart.name, AppVersion: chart.appVersion },
  };
  return Object.fromEntries(
    parsed
      .filter(([file]) => !file.startsWith('_'))
      .map(([file, nodes]) => [file, show(nodes, { dot, templates, variables: {} })]),
  );
}

/** The objects that the chart makes. @throws Error if one is no YAML */
export function manifestsOf(given: Values = {}): Manifest[] {
  return Object.entries(renderChart(given))
    .filter(([file]) => file.endsWith('.yaml'))
    .flatMap(([file, text]) =>
      parseAllDocuments(text, { uniqueKeys: true }).flatMap((document) => {
        if (document.errors.length > 0) throw new Error(`${file}: ${document.errors.join('; ')}\n${text}`);
        const manifest = document.toJS() as Manifest | null;
        return manifest === null ? [] : [manifest];
      }),
    );
}
