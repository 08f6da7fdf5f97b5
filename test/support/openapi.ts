import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';

/** The members of an OpenAPI document that tests read. */
export interface OpenApi {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly responses: Readonly<Record<string, Answer>>;
    readonly schemas: Readonly<Record<string, { readonly enum?: readonly string[] }>>;
  };
}

/** The operation of a path and a method. */
export interface Operation {
  readonly responses: Readonly<Record<string, Answer | Reference>>;
  readonly 'x-metrics'?: Readonly<
    Record<string, { readonly type: string; readonly labels: readonly string[] }>
  >;
}

interface Reference {
  readonly $ref: string;
}

interface Answer {
  readonly headers?: Readonly<
    Record<string, Reference | { readonly required?: boolean; readonly schema: object }>
  >;
  readonly content?: Readonly<Record<string, { readonly schema: object }>>;
}

/** `docs/openapi.yaml`, as the build has parsed it: many test files load this one, and parsing YAML is slow. */
export const openApi = JSON.parse(
  readFileSync(new URL('../../dist/service/openapi.json', import.meta.url), 'utf8'),
) as OpenApi;

// Answers that are possible on every path, for every operation.
const ANYWHERE: Readonly<Record<number, string>> = {
  400: 'BadFraming',
  403: 'ForeignOrigin',
  429: 'RateLimited',
  500: 'Internal',
};

/** Makes schemas strict: an answer must not have members that the document does not list. */
function close(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(close);
  if (typeof value !== 'object' || value === null) return value;
  const closed = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, close(member)]));
  return 'properties' in closed && !('additionalProperties' in closed)
    ? { ...closed, additionalProperties: false }
    : closed;
}

// The whole document is added, although it is not a schema. Unknown keywords in it are ignored.
const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true });
ajv.addSchema(close(openApi) as object, 'openapi');

const escape = (member: string) => member.replaceAll('~', '~0').replaceAll('/', '~1');
const at = (...members: string[]) => `#/${members.map(escape).join('/')}`;

function validate(pointer: string, value: unknown, what: string): string[] {
  const check = ajv.getSchema(`openapi${pointer}`);
  if (check === undefined) return [`docs/openapi.yaml has nothing at ${pointer}`];
  return check(value) === true ? [] : [`${what} ${ajv.errorsText(check.errors)}`];
}

/** Resolves a pointer or a reference to an answer, and returns its place too. */
function resolve(pointer: string): { readonly pointer: string; readonly value: unknown } {
  let value: unknown = openApi;
  for (const member of pointer.slice(2).split('/'))
    value = (value as Record<string, unknown> | undefined)?.[
      member.replaceAll('~1', '/').replaceAll('~0', '~')
    ];
  return value !== null && typeof value === 'object' && '$ref' in value
    ? resolve((value as Reference).$ref)
    : { pointer, value };
}

/** A path as the document has it: with `{name}` in place of what can be anything. */
function describedPath(path: string): string {
  const isOf = (described: string) => new RegExp(`^${described.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
  return Object.keys(openApi.paths).find((described) => described.includes('{') && isOf(described)) ?? path;
}

function findAnswer(method: string, asked: string, status: number): string | null {
  const path = describedPath(asked);
  const operations = openApi.paths[path];
  const known = operations?.[method === 'head' ? 'get' : method];
  if (known !== undefined)
    return String(status) in known.responses
      ? at('paths', path, method === 'head' ? 'get' : method, 'responses', String(status))
      : null;
  // Paths below /approve/ share their methods: a POST to a file finds nothing.
  const own = { 404: 'UnknownPath', ...(operations !== undefined && { 405: 'MethodNotAllowed' }) };
  const name = ({ ...ANYWHERE, ...own } as Record<number, string>)[status];
  return name === undefined ? null : at('components', 'responses', name);
}

/** An answer of the service, read to its end. */
export interface GivenAnswer {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The differences between an answer and `docs/openapi.yaml`. */
export function findDifferences({ method, path, status, headers, text }: GivenAnswer): string[] {
  const found = findAnswer(method.toLowerCase(), path, status);
  if (found === null) return ['docs/openapi.yaml does not know this status here'];
  const { pointer, value } = resolve(found);
  const answer = value as Answer;
  const problems: string[] = [];
  for (const name of Object.keys(answer.headers ?? {})) {
    const header = resolve(`${pointer}/headers/${escape(name)}`);
    const given = headers.get(name);
    if (given !== null) problems.push(...validate(`${header.pointer}/schema`, given, `header ${name}:`));
    else if ((header.value as { required?: boolean }).required === true)
      problems.push(`header ${name}: is missing`);
  }
  const type = headers.get('content-type')?.split(';')[0] ?? '';
  if (answer.content === undefined) return text === '' ? problems : [...problems, 'a body is not described'];
  if (!(type in answer.content)) return [...problems, `content type: ${type} is not described`];
  if (method.toLowerCase() === 'head') return problems;
  const body: unknown = type === 'application/json' ? JSON.parse(text) : text;
  return [...problems, ...validate(`${pointer}/content/${escape(type)}/schema`, body, 'body:')];
}

const origins = new Set<string>();
const plainFetch = globalThis.fetch;

/**
 * From now on, whatever this origin answers to `fetch` is compared with `docs/openapi.yaml`, until the returned function
 * is called: another server, of another test file, may have the port next.
 */
export function checkAnswersOf(url: string): () => void {
  const { origin } = new URL(url);
  origins.add(origin);
  globalThis.fetch = checkedFetch;
  return () => origins.delete(origin);
}

/** @throws Error if an answer is not as `docs/openapi.yaml` describes it */
export function requireDescribed(answer: GivenAnswer): void {
  const { method, path, status, text } = answer;
  // Answers of /gate/* have the form of the caller's protocol, for any method and path: docs/spec/gate.md.
  const problems = path.startsWith('/gate/') ? [] : findDifferences(answer);
  if (problems.length > 0)
    throw new Error(
      `${method} ${path} was answered ${status} ${text.slice(0, 300)}\n` +
        `expected what docs/openapi.yaml says: ${problems.join('; ')}`,
    );
}

const checkedFetch: typeof fetch = async (input, init) => {
  const response = await plainFetch(input, init);
  const request = input instanceof Request ? input : null;
  const url = new URL(request?.url ?? input);
  if (!origins.has(url.origin) || url.pathname.startsWith('/gate/')) return response;
  const method = init?.method ?? request?.method ?? 'GET';
  const text = await response.clone().text();
  const { status, headers } = response;
  requireDescribed({ method, path: url.pathname, status, headers, text });
  return response;
};
