import { findBundle } from '../../src/gate/carriers.js';
import { GATE_CATALOGUE } from '../../src/gate/codes.js';
import type { GateRequest, PendingCall } from '../../src/gate/request.js';
import { readBundleText } from '../../src/protocol/bundle.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/protocol/json.js';
import { INVOCATION_TYPE } from '../../src/protocol/claims.js';
import type { Entries } from '../../src/revocation/entries.js';
import { shapeOf } from '../../src/cli/log-lines.js';
import { CATALOGUE, type Block } from '../../src/verify/codes.js';
import { nestsTooDeep, parseOrUndefined, readToken, short } from './decode.js';
import { openAs } from './gate.js';
import { readCurl, readGateQuestion, readHar, readRawRequest } from './http-text.js';
import { areRootLines, readRevocations, readRoots, readUsage, type UsedByReceipt } from './known.js';

/** The longest text that is looked at, in characters: more than any service takes. */
export const MAX_INPUT = 4_000_000;

/** A refusal that somebody else noted, without the bundle that it is about. */
export interface NotedRefusal {
  readonly code: string;
  /** `null` for a code of a gate. */
  readonly block: Block | null;
  readonly message: string | null;
  readonly suggestion: string;
}

/** What a note says, as it is there. */
export type Facts = readonly (readonly [name: string, value: string])[];

/** What a text is. `words` say it to a person. */
export type Recognised = { readonly words: string } & (
  | { readonly kind: 'nothing' }
  | { readonly kind: 'unknown' }
  /** `bundle` is any JSON value; `body` is the JSON text of the call's body. */
  | {
      readonly kind: 'bundle';
      readonly bundle: JsonValue;
      readonly body: string | null;
      readonly note?: string;
      /** The request that it came in, as a gate opens it. */
      readonly call?: PendingCall;
    }
  | { readonly kind: 'receipts'; readonly receipts: readonly string[] }
  | { readonly kind: 'refusal'; readonly refusal: NotedRefusal; readonly facts: Facts }
  /** Something else that somebody noted. */
  | { readonly kind: 'note'; readonly facts: Facts }
  | Aside
);

/** What only a service knows: it is used beside a bundle. */
export type Aside = { readonly words: string } & (
  | { readonly kind: 'status list'; readonly credential: JsonObject }
  | { readonly kind: 'usage'; readonly used: UsedByReceipt }
  | { readonly kind: 'revocations'; readonly entries: Entries }
  /** The text of a file, or DIDs. */
  | { readonly kind: 'roots'; readonly text: string }
);

/** Whether a text is used beside a bundle, and so takes no bundle's place. */
export function isAside(recognised: Recognised): recognised is Aside {
  return ['status list', 'usage', 'revocations', 'roots'].includes(recognised.kind);
}

const EXPECTED = 'expected a bundle, receipts, a request, a line of a log or a status list';

/** Shorter words are no bundle in base64url, and are not called one. */
const MIN_HEADER = 64;

const JWT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/** Says what a text is, whoever made it. Never throws, and takes time linear in its length. */
export function recognise(input: string): Recognised {
  const text = input.trim();
  if (text === '') return { kind: 'nothing', words: 'Nothing yet' };
  if (text.length > MAX_INPUT)
    return unknown(`Too long: ${text.length} characters, expected at most ${MAX_INPUT}`);
  const [, fragment] = /^https?:\/\/\S+#bundle=([\w-]+)/.exec(text) ?? [];
  if (fragment !== undefined) return inHeaderForm(fragment, 'A link to an inspector');
  const [, header] = /^x-drs-bundle:\s*(\S+)$/i.exec(text) ?? [];
  if (header !== undefined) return inHeaderForm(header, 'An X-DRS-Bundle header');
  const curl = readCurl(text);
  if (curl !== null) return ofRequest(curl, 'A curl command');
  const raw = readRawRequest(text);
  if (raw !== null) return ofRequest(raw, 'An HTTP request');
  const lines = text
    .split('\n', 2000)
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (lines.every((line) => JWT.test(line))) return ofTokens(lines);
  if (nestsTooDeep(text)) return unknown('JSON that nests too deep to be shown');
  // Before what they look like: some have digests of receipts, as a bundle, or a DID, as a trusted root.
  const logged = ofLog(lines);
  if (logged !== null) return logged;
  const aside = ofAside(text, lines);
  if (aside !== null) return aside;
  const value = parseOrUndefined(text);
  if (value !== undefined) return ofJson(value, text);
  if (text.length >= MIN_HEADER && /^[\w-]+={0,2}$/.test(text))
    return inHeaderForm(text, 'The value of an X-DRS-Bundle header');
  if (text.startsWith('{')) return unknown('JSON with a fault: it ends too early, or a character is wrong');
  return unknown(`Not recognised: ${EXPECTED}`);
}

function ofAside(text: string, lines: readonly string[]): Recognised | null {
  const used = readUsage(text, lines);
  if (used !== null) {
    const [first = ''] = used.keys();
    const of = used.size === 1 ? short(first.replace('sha256:', '')) : `${used.size} receipts`;
    return { kind: 'usage', words: `what has been used of ${of}`, used };
  }
  const isFile = areRootLines(lines);
  const revoked = isFile ? null : readRevocations(text);
  if (revoked !== null && 'problem' in revoked) return unknown(revoked.problem);
  if (revoked !== null)
    return {
      ...{ kind: 'revocations', entries: revoked },
      words: revoked.size === 1 ? 'one local revocation' : `${revoked.size} local revocations`,
    };
  if (!isFile && !text.split(/[\s,]+/).every((did) => did.startsWith('did:'))) return null;
  const { roots, problem } = readRoots(text);
  if (problem !== null)
    return unknown(`${isFile ? 'A file of trusted roots' : 'DIDs'}, not used. ${problem}`);
  const words = roots.length === 1 ? 'one trusted root' : `${roots.length} trusted roots`;
  return { kind: 'roots', words, text };
}

function unknown(words: string): Recognised {
  return { kind: 'unknown', words };
}

function inHeaderForm(encoded: string, words: string): Recognised {
  const read = readBundleText(encoded);
  const value =
    read.defect === undefined && !nestsTooDeep(read.text) ? parseOrUndefined(read.text) : undefined;
  if (value === undefined) return unknown(`${words}, but it is not strict base64url of JSON`);
  return { kind: 'bundle', words: `${words}: ${sizeOf(value)}`, bundle: value, body: null };
}

function sizeOf(bundle: JsonValue): string {
  const receipts = isJsonObject(bundle) ? bundle['receipts'] : undefined;
  if (!Array.isArray(receipts)) return 'no receipts';
  return receipts.length === 1 ? '1 receipt and a call' : `${receipts.length} receipts and a call`;
}

function ofTokens(tokens: readonly string[]): Recognised {
  const last = readToken(tokens.at(-1) ?? '');
  const credential = last.claims['vc'] ?? last.claims;
  if (tokens.length === 1 && isStatusList(credential))
    return { kind: 'status list', words: 'a status list', credential };
  if (last.claims['drs_type'] === INVOCATION_TYPE) {
    const receipts = tokens.slice(0, -1);
    const bundle = { bundle_version: '4.0', receipts, invocation: last.jwt };
    const words =
      receipts.length === 0
        ? 'An invocation without its receipts'
        : `Receipts and an invocation: ${sizeOf(bundle)}`;
    return { kind: 'bundle', words, bundle, body: null };
  }
  const words = tokens.length === 1 ? 'One receipt' : `A chain of ${tokens.length} receipts, without a call`;
  return { kind: 'receipts', words, receipts: tokens };
}

function ofJson(value: JsonValue, text: string): Recognised {
  if (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string'))
    return ofTokens(value);
  if (typeof value === 'string') return recognise(value);
  if (!isJsonObject(value)) return unknown('JSON, but not an object');
  if (['receipts', 'invocation', 'bundle_version'].some((name) => Object.hasOwn(value, name)))
    return { kind: 'bundle', words: `A bundle: ${sizeOf(value)}`, ...splitBody(value) };
  if (isStatusList(value)) return { kind: 'status list', words: 'a status list', credential: value };
  const har = readHar(value);
  if (har !== null) return ofHar(har);
  const question = readGateQuestion(value, text);
  if (question !== null)
    return value['jsonrpc'] === '2.0'
      ? ofRequest(question, 'A JSON-RPC message')
      : ofRequest(question, 'A question to a gate', value['protocol']);
  if (Object.hasOwn(value, 'kty') && Object.hasOwn(value, 'd'))
    return unknown('A private key: show it to nobody. It is not needed here; paste what it has signed');
  return ofNote(value) ?? unknown(`JSON, but nothing that is known here: ${EXPECTED}`);
}

function splitBody(value: JsonObject): { bundle: JsonValue; body: string | null } {
  if (!Object.hasOwn(value, 'body')) return { bundle: value, body: null };
  const { body, ...bundle } = value;
  return { bundle, body: JSON.stringify(body, null, 2) };
}

function isStatusList(value: unknown): value is JsonObject {
  if (!isJsonObject(value)) return false;
  const subject = value['credentialSubject'];
  return isJsonObject(subject) && typeof subject['encodedList'] === 'string';
}

function ofHar(requests: readonly GateRequest[]): Recognised {
  const found = requests.map((request) => ofRequest(request, 'A HAR file'));
  const bundles = found.filter(({ kind }) => kind === 'bundle');
  const [first] = bundles;
  if (first === undefined) return unknown(`A HAR file: none of its ${requests.length} requests has a bundle`);
  return {
    ...first,
    words: `${first.words} (the first of ${bundles.length} in ${requests.length} requests)`,
  };
}

/** Finds the bundle of a request with the functions of the gate, so that it is the one which a gate would verify. */
function ofRequest(request: GateRequest, what: string, only?: JsonValue): Recognised {
  let denial: string | null = null;
  const protocols = ['mcp', 'a2a', 'http'] as const;
  const named = protocols.filter((protocol) => protocol === only);
  for (const protocol of named.length > 0 ? named : protocols) {
    const opened = openAs(protocol, request);
    if (opened.kind === 'check') {
      const { body, bundle } = opened;
      const text =
        body.kind === 'text' ? body.text : body.kind === 'value' ? JSON.stringify(body.value, null, 2) : null;
      const title = protocol === 'http' ? what : `${what} (${protocol.toUpperCase()})`;
      const note = body.kind === 'unusable' ? body.reason : undefined;
      return {
        kind: 'bundle',
        words: `${title}: ${sizeOf(bundle)}`,
        bundle,
        body: text,
        call: opened,
        ...(note === undefined ? {} : { note }),
      };
    }
    if (opened.kind === 'deny' && (denial === null || protocol === 'http' || named.length > 0))
      denial = `${opened.failure.code}: ${opened.failure.message}`;
  }
  const encoded = findBundle('http', request.headers, null);
  if (typeof encoded === 'string') {
    const found = inHeaderForm(encoded, what);
    if (found.kind === 'bundle')
      return { ...found, ...(denial === null ? {} : { note: `A gate refuses this request. ${denial}` }) };
    return found;
  }
  return unknown(`${what}, without a bundle${denial === null ? '' : ` (${denial})`}`);
}

/** Lines of a log, between others; the first that is refused is shown, else the first. */
function ofLog(lines: readonly string[]): Recognised | null {
  const notes = lines
    .map(parseOrUndefined)
    .filter(isJsonObject)
    .filter((line) => shapeOf(line) !== null);
  const found = notes.flatMap((line) => ofNote(line) ?? []);
  const refusals = found.filter(({ kind }) => kind === 'refusal');
  const first = refusals[0] ?? found[0];
  if (first === undefined || notes.length === 1) return first ?? null;
  return { ...first, words: `${first.words} (${refusals.length} refused of ${notes.length} lines)` };
}

/** A line of a log, a verdict, or the refusal of a gate. */
function ofNote(value: JsonObject): Recognised | null {
  const shape = shapeOf(value);
  const error = isJsonObject(value['error']) ? value['error'] : null;
  const data = error !== null && isJsonObject(error['data']) ? error['data'] : error;
  const code = value['code'] ?? data?.['code'];
  const facts = Object.entries(value)
    .filter(([name]) => !['valid', 'error', 'code', 'block', 'level', 'pid'].includes(name))
    .slice(0, 24)
    .map(([name, fact]) => [name, typeof fact === 'string' ? fact : JSON.stringify(fact)] as const);
  if (typeof code !== 'string') {
    if (shape === null && value['valid'] !== true) return null;
    const isAllowed = shape === null || shape.kind === 'call';
    const words = shape?.words ?? 'A verdict: the bundle was valid';
    const outcome = value['endpoint'] === 'gate' ? 'the call was allowed' : 'the bundle was valid';
    return { kind: 'note', words: isAllowed && shape !== null ? `${words}: ${outcome}` : words, facts };
  }
  const row = CATALOGUE.find((one) => one.code === code);
  const gateRow = GATE_CATALOGUE.find((one) => one.code === code);
  // Some codes are of both; a line says the block of those of a verdict.
  const isOfGate = gateRow !== undefined && shape !== null && !('block' in value);
  const found = isOfGate ? gateRow : (row ?? gateRow);
  if (found === undefined) return null;
  const message = value['message'] ?? data?.['detail'] ?? data?.['message'] ?? error?.['message'];
  return {
    kind: 'refusal',
    words: shape?.words ?? 'A refusal, as the caller got it',
    refusal: {
      code,
      block: 'block' in found ? found.block : null,
      message: typeof message === 'string' ? message : null,
      suggestion: found.suggestion,
    },
    facts,
  };
}
