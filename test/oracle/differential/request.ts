import { fromValue, readJson, writeJson, type Json } from '../json.js';
import { verify, type Answer, type Question, type Revocation, type Settings } from '../oracle.js';
import { buildBundle, type Recipe } from '../generator/recipe.js';
import { verifyRemembered as verifySignature } from './signatures.js';

/** How the body of a call is passed to the library. Over HTTP it is always in the request. */
export type Channel = 'text' | 'value' | 'member';

/** One question for all verifiers. */
export interface Request {
  /** How it was made; absent in a stored case. */
  readonly recipe?: Recipe;
  /** The bundle, without the body, as JSON text. */
  readonly bundle: string;
  readonly body?: string;
  readonly channel: Channel;
  readonly details?: boolean;
  /** Unix seconds. Over HTTP, the real time is used instead. */
  readonly now: number;
}

/** One event in the life of a verifier. */
export type Step =
  | { readonly kind: 'verify'; readonly request: Request }
  | { readonly kind: 'revoke'; readonly target: Revoked };

/** An index, the digest of a receipt, a DID, or what the oracle's `Revocation.local` has besides. */
export type Revoked = number | string;

/** What to send, in the form of `POST /admin/revoke`. */
export function revocationOf(target: Revoked) {
  if (typeof target === 'number') return { status_list_index: target };
  const [kind, did = '', name = ''] = target.split(' ');
  if (kind === 'jti') return { jti: name, iss: did };
  if (kind === 'index') return { status_list_index: Number(name), root: did };
  return target.startsWith('sha256:') ? { receipt: target } : { did: target };
}

export function toRequest(recipe: Recipe, rest: Pick<Request, 'channel' | 'now' | 'details'>): Request {
  return {
    ...rest,
    recipe,
    bundle: writeJson(buildBundle(recipe)),
    ...(recipe.body !== undefined && { body: recipe.body }),
  };
}

/** The text of a `POST /verify`. */
export function httpText({ bundle, body, details }: Request): string {
  if (!bundle.endsWith('}')) return bundle;
  const extra = (body === undefined ? '' : `,"body":${body}`) + (details === true ? ',"details":true' : '');
  return bundle === '{}' ? `{${extra.slice(1)}}` : `${bundle.slice(0, -1)}${extra}}`;
}

/** The arguments of `verify`. */
export function libraryCall(request: Request): [unknown, { now: number; body?: unknown; bodyText?: string }] {
  const { body, channel, now, details } = request;
  const bundle: unknown = JSON.parse(request.bundle);
  const isObject = typeof bundle === 'object' && bundle !== null && !Array.isArray(bundle);
  if (isObject && details === true) Object.assign(bundle, { details: true });
  if (body === undefined) return [bundle, { now }];
  const value = channel === 'text' ? undefined : parsed(body);
  if (value === undefined) return [bundle, { now, bodyText: body }];
  if (channel === 'value' || !isObject) return [bundle, { now, body: value.value }];
  return [Object.assign(bundle, { body: value.value }), { now }];
}

function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/** The answer that the library must give according to the specification. */
export function expectedOfLibrary(request: Request, settings: Settings, revocation: Revocation): string {
  const { body, channel, details, now } = request;
  const bundle = readJson(request.bundle);
  if (bundle === undefined) throw new Error('a bundle for the library is a value');
  const value = body === undefined || channel === 'text' ? undefined : parsed(body);
  const read = body === undefined ? undefined : (readJson(body) ?? 'unreadable');
  return comparable(
    verify({
      bundle,
      body: value === undefined ? read : fromValue(value.value),
      ...(details !== undefined && { details }),
      now,
      settings,
      revocation,
      verifySignature,
    }),
  );
}

/** The answer that a client of the service must give: like the library, but for the real time. */
export function expectedOfClient(request: Request, settings: Settings, revocation: Revocation): string {
  return expectedOfLibrary({ ...request, now: Math.floor(Date.now() / 1000) }, settings, revocation);
}

/** The answer that the service must give. */
export function expectedOfService(request: Request, settings: Settings, revocation: Revocation): string {
  const whole = readJson(httpText(request));
  if (whole === undefined) return 'status 400';
  const members = whole.kind === 'object' ? whole.members : [];
  const question: Question = {
    bundle: whole,
    body: members.findLast(([name]) => name === 'body')?.[1],
    details: request.details === true,
    now: Math.floor(Date.now() / 1000),
    settings,
    revocation,
    verifySignature,
  };
  return comparable(verify(question));
}

function comparable(answer: Answer): string {
  if (!answer.valid) return line(answer.code, answer.binding);
  const context: Json = {
    kind: 'object',
    members: [
      ['root_principal', { kind: 'string', value: answer.context.root_principal }],
      ['chain_depth', { kind: 'number', text: String(answer.context.chain_depth) }],
      ['leaf_policy', answer.context.leaf_policy],
      ['tool_server', { kind: 'string', value: answer.context.tool_server }],
      ...(answer.context.unenforced === undefined
        ? []
        : [['unenforced', fromValue(answer.context.unenforced)] as const]),
    ],
  };
  const details = answer.details === undefined ? undefined : fromValue(answer.details);
  return line('valid', answer.binding, context, details);
}

/** An answer of the library or the service in the same form. Unexpected members are included, so that they differ. */
export function comparableAnswer(verdict: unknown): string {
  const json = fromValue(verdict);
  if (json.kind !== 'object') return `no verdict: ${writeJson(json)}`;
  const { valid, error, binding, context, details, ...rest } = Object.fromEntries(json.members);
  const found = binding?.kind === 'string' ? binding.value : undefined;
  if (Object.keys(rest).length > 0) return `unknown members: ${Object.keys(rest).join(', ')}`;
  if (
    valid?.kind !== 'boolean' ||
    valid.value !== (error === undefined) ||
    valid.value !== (context !== undefined)
  )
    return `inconsistent: ${writeJson(json)}`;
  if (valid.value) return line('valid', found, context, details);
  const members = error?.kind === 'object' ? error.members : [];
  const texts = new Map(members.map(([name, value]) => [name, value.kind === 'string' ? value.value : '']));
  if (texts.size !== 3 || !texts.get('message') || !texts.get('suggestion'))
    return `an error without its three texts: ${writeJson(json)}`;
  return line(texts.get('code') ?? '', found);
}

function line(what: string, binding: string | undefined, context?: Json, details?: Json): string {
  return [
    what,
    binding !== undefined && `binding ${binding}`,
    context !== undefined && sorted(context),
    details !== undefined && `details ${sorted(details)}`,
  ]
    .filter((part) => part !== false)
    .join(' ');
}

/** Sorts members, and writes numbers as doubles. */
function sorted(json: Json): string {
  if (json.kind === 'number') return String(Number(json.text));
  if (json.kind === 'array') return `[${json.items.map(sorted).join()}]`;
  if (json.kind !== 'object') return writeJson(json);
  const members = json.members.map(([name, value]) => `${JSON.stringify(name)}:${sorted(value)}`).sort();
  return `{${members.join()}}`;
}
