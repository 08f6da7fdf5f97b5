import { encodeBase64url, encodeUtf8 } from '#platform';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/protocol/json.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { CLOCKS } from '../../src/verify/parts.js';
import { numberClaim, pretty, type Token } from './decode.js';
import { nameOf, viewOf, type Inspection, type Settings, type Subjects } from './inspect.js';

/** What a bundle can leave the page as. */
export const FORMS = {
  ...{ link: 'Link', bundle: 'Bundle', curl: 'curl', vector: 'Test vector', report: 'Bug report' },
} as const;

export type Form = keyof typeof FORMS;

// 64 zero bytes. With it the call cannot be made, and everything else can still be seen.
const NO_SIGNATURE = 'A'.repeat(86);

/** A bundle without the signature of its call: whoever has a fresh one can make the call. */
export function redact(bundle: JsonValue): JsonValue {
  if (!isJsonObject(bundle) || typeof bundle['invocation'] !== 'string') return bundle;
  const [header = '', payload = ''] = bundle['invocation'].split('.');
  return { ...bundle, invocation: `${header}.${payload}.${NO_SIGNATURE}` };
}

/** Whether the signature of a call was taken out by {@link redact}. */
export function isRedacted(bundle: JsonValue): boolean {
  return (
    isJsonObject(bundle) &&
    typeof bundle['invocation'] === 'string' &&
    bundle['invocation'].endsWith(`.${NO_SIGNATURE}`)
  );
}

/** How long after its `exp` a receipt can be used at most: the limit of `EXPIRY_GRACE_SECS`, and the same for clocks that lag. */
const MAX_LATE_SECS = 2 * 3600;

/**
 * Whether a verifier could accept the call. An invocation has no end of its own, and not every verifier has a replay
 * window, so it ends with the first of its receipts. Their `exp` counts only in the verdict EXPIRED: in any other, nobody
 * has checked that it was signed.
 *
 * @param clock Unix seconds, whatever time is assumed
 */
export function isLive({ invocation, failure, receipts, subjects }: Inspection, clock: number): boolean {
  if (invocation === null || subjects === null || isRedacted(subjects.bundle)) return false;
  const ends = receipts.map((receipt) => numberClaim(receipt, 'exp') ?? Infinity);
  return failure?.code !== 'EXPIRED' || Math.min(...ends) + MAX_LATE_SECS >= clock;
}

/** Whether the address of a page leads others to it, too, and not only to this machine. */
export function isForOthers({ protocol, hostname }: Pick<URL, 'protocol' | 'hostname'>): boolean {
  return /^https?:$/.test(protocol) && !/^(?:(?:.+\.)?localhost|127\..+|\[::1\])$/.test(hostname);
}

interface Shared extends Subjects {
  readonly found: Inspection;
  readonly settings: Settings;
  /** The address of this page, without a query or fragment. */
  readonly page: string;
}

/** What is copied, in a form. */
export function writeAs(form: Form, { bundle, body, found, settings, page }: Shared): string {
  const request = withBody(bundle, body);
  switch (form) {
    case 'link':
      return `${page}#bundle=${encodeBase64url(encodeUtf8(request))}`;
    case 'bundle':
      return request;
    case 'curl':
      return `curl -sS http://127.0.0.1:8080/verify -H 'Content-Type: application/json' -d '${request.replaceAll("'", `'\\''`)}'`;
    case 'vector':
      return JSON.stringify(vectorOf(request, found, settings), null, 2);
    case 'report':
      return reportOf(request, found, settings);
  }
}

/** The body stays the text that it is: parsing it would hide what it may have been refused for. */
function withBody(bundle: JsonValue, body: string | null): string {
  const text = JSON.stringify(bundle);
  return body === null || !isJsonObject(bundle) ? text : `${text.slice(0, -1)},"body":${body}}`;
}

function vectorOf(
  request: string,
  { failure: found, binding, receipts }: Inspection,
  settings: Settings,
): JsonObject {
  const { now, serverIdentity, trustedRoots, tools, clockSkewSecs, requireBinding } = settings;
  // A vector of this kind has nothing counted.
  const failure = found?.block === 'replay' ? null : found;
  return {
    ...{
      id: `inspector-${failure?.code.toLowerCase().replaceAll('_', '-') ?? 'valid'}`,
      kind: 'verify',
      now,
    },
    settings: {
      ...(serverIdentity === '' ? {} : { serverIdentity }),
      // Of a file with thousands, those that this chain is about.
      ...(trustedRoots.length === 0 ? {} : { trustedRoots: rootsFor(trustedRoots, receipts) }),
      ...(tools.length === 0 ? {} : { tools: tools as unknown as JsonValue }),
      ...(clockSkewSecs === CLOCKS.clockSkewSecs ? {} : { clockSkewSecs }),
      ...(requireBinding ? { requireBinding } : {}),
    },
    revocation: revocationFor(receipts, settings),
    request,
    expected: {
      valid: failure === null,
      ...(failure === null ? {} : { code: failure.code }),
      ...(binding === null ? {} : { binding }),
    },
  };
}

/** The root of the chain, or another one if it is not trusted. */
function rootsFor(roots: Settings['trustedRoots'], [first]: readonly Token[]): JsonValue[] {
  const didOf = (root: (typeof roots)[number]) => (typeof root === 'string' ? root : root.did);
  const own = roots.filter((root) => didOf(root) === first?.claims['iss']);
  return (own.length > 0 ? own : roots.slice(0, 1)) as JsonValue[];
}

/** What is revoked of a chain, whoever said so. */
function revocationFor(receipts: readonly Token[], settings: Settings): JsonObject {
  const view = viewOf(settings);
  const local = new Set<number | string>();
  let remote = 'none';
  for (const { jwt, claims } of receipts) {
    const index = claims['drs_status_list_index'];
    if (typeof index === 'number') {
      const status = view.remoteStatusOf(index);
      if (status === 'revoked' || view.isRevokedLocally(index)) local.add(index);
      else if (status === 'out_of_range') remote = '00';
    }
    for (const name of [digestOf(jwt), claims['iss'], claims['aud']])
      if (typeof name === 'string' && view.isNameRevoked(name)) local.add(name);
  }
  return { remote, local: [...local] };
}

function reportOf(request: string, found: Inspection, settings: Settings): string {
  const { failure, lights, receipts, invocation, binding } = found;
  const verdict =
    failure === null
      ? `valid${binding === null ? '' : `, binding ${binding}`}`
      : `${failure.code}: ${failure.message}`;
  const claims = [...receipts, ...(invocation === null ? [] : [invocation])].map(({ text }) =>
    pretty(text ?? '(cannot be read)'),
  );
  const fence = (text: string) => `~~~json\n${text.replaceAll('~~~', '~ ~ ~')}\n~~~`;
  return [
    `## Verdict\n\n${verdict}`,
    `Checked at ${settings.now}; ${lights.map(({ block, state }) => `${nameOf(block)}: ${state}`).join(', ')}.`,
    `## Claims\n\n${claims.map(fence).join('\n\n')}`,
    `## Bundle\n\n${fence(request)}`,
    '## What I expected\n\n…\n',
  ].join('\n\n');
}
