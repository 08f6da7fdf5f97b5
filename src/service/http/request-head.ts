import type { HttpRequest } from './front-end.js';
import { randomBytes } from 'node:crypto';
import { GATE_HEADERS, headerName, headerValue, type HeaderLookup } from '../../gate/request.js';
import type { Protocol } from '../../gate/codes.js';
import { GATE_PROTOCOLS } from '../../gate/open.js';
import { hasDotSegment } from '../../protocol/resources.js';

/** The headers of a request that every route needs. */
export interface RequestHead {
  /** `Content-Length`; 0 if it is absent. */
  readonly contentLength: number;
  /** Whether a body follows. */
  readonly hasBody: boolean;
  /** All `Content-Type` headers in the order sent, joined with commas; `null` if there is none. */
  readonly contentType: string | null;
  /** `Content-Encoding`, in the same form. */
  readonly contentEncoding: string | null;
  /** Whether there is an `X-DRS-Bundle`. */
  readonly hasBundle: boolean;
  /** Why it is unclear where the body ends; `null` if it is clear. */
  readonly framingFault: string | null;
  /** Whether a `Connection` header has the option `close`: then this is the connection's last request. RFC 9112 §9.6 */
  readonly isLast: boolean;
  readonly origin: string | null;
  readonly fetchSite: string | null;
  /** The caller's `X-Request-Id` if it is usable, else `null`; see {@link readRequestId}. */
  readonly requestId: string | null;
  readonly traceparent: string | null;
  /** All `X-Forwarded-For` headers in the order sent, joined with commas. The client may have forged any of it. */
  readonly forwardedFor: string | null;
  /** Those that a gate reads besides; empty on other routes. */
  readonly gate: GateHead;
}

let lengths = 0;
let codings = 0;
let contentLength = '';
let coding = '';
let contentType: string | null = null;
let contentEncoding: string | null = null;
let hasBundle = false;
let isLast = false;
let origin: string | null = null;
let fetchSite: string | null = null;
let requestId: string | null = null;
let traceparent: string | null = null;
let forwardedFor: string | null = null;

const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i;

function readHeader(name: string, value: string): void {
  // The length check comes first because it is cheap and excludes most headers.
  const { length } = name;
  if (
    length !== 14 &&
    length !== 17 &&
    length !== 6 &&
    length !== 12 &&
    length !== 11 &&
    length !== 10 &&
    length !== 15 &&
    length !== 16
  )
    return;
  switch (name) {
    case 'content-length':
      lengths++;
      contentLength = value;
      break;
    case 'transfer-encoding':
      codings++;
      coding = value;
      break;
    case 'content-type':
      contentType = contentType === null ? value : `${contentType},${value}`;
      break;
    case 'content-encoding':
      contentEncoding = contentEncoding === null ? value : `${contentEncoding},${value}`;
      break;
    case 'x-drs-bundle':
      hasBundle = true;
      break;
    case 'connection':
      isLast ||= CLOSE.test(value);
      break;
    case 'origin':
      origin = value;
      break;
    case 'sec-fetch-site':
      fetchSite = value;
      break;
    case 'x-request-id':
      requestId = value;
      break;
    case 'traceparent':
      traceparent = value;
      break;
    case 'x-forwarded-for':
      forwardedFor = forwardedFor === null ? value : `${forwardedFor},${value}`;
      break;
  }
}

/**
 * Reads the headers in one pass. It costs as much as five look-ups by name, and also finds repeated headers.
 *
 * @param gate takes the headers that a gate reads, on its routes
 */
export function readHead(req: HttpRequest, gate?: GateHead): RequestHead {
  lengths = codings = 0;
  contentLength = coding = '';
  contentType = contentEncoding = null;
  hasBundle = isLast = false;
  origin = fetchSite = requestId = traceparent = forwardedFor = null;
  if (gate === undefined) req.forEach(readHeader);
  else {
    // In the same pass: each copies the bundle, which is by far the largest header.
    req.forEach((name, value) => {
      readHeader(name, value);
      gate.add(name, value);
    });
  }
  return {
    contentLength: Number(contentLength),
    hasBody: codings > 0 || (lengths > 0 && contentLength !== '0'),
    contentType,
    contentEncoding,
    hasBundle,
    framingFault: findFramingFault(),
    isLast,
    origin,
    fetchSite,
    requestId: readRequestId(requestId),
    traceparent,
    forwardedFor,
    gate: gate ?? EMPTY,
  };
}

/**
 * Refuses ambiguous framing. uWebSockets.js uses the first of two lengths and treats any coding as `chunked`; a proxy
 * in front may decide otherwise (request smuggling).
 */
function findFramingFault(): string | null {
  if (lengths > 1) return 'Content-Length comes more than once, expected one';
  if (codings > 1) return 'Transfer-Encoding comes more than once, expected "chunked"';
  if (codings === 1 && coding.toLowerCase() !== 'chunked')
    return `Transfer-Encoding is ${JSON.stringify(coding.slice(0, 40))}, expected "chunked"`;
  return null;
}

// Covers what proxies and frameworks send: UUIDs, hex digits, base64 in both alphabets.
const FORM = /^[\w.:@+/=-]{1,128}$/;
// trace-id and parent-id of W3C Trace Context. Version ff and all-zero ids are invalid.
const TRACEPARENT =
  /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:$|-(?!.*[^!-~]).{0,100}$)/;

const instance = randomBytes(6).toString('hex');
let requests = 0;

/**
 * Returns the caller's request id if it is safe to log and send back: 1 to 128 letters, digits and `_ . : @ + / = -`.
 * Otherwise returns `null`.
 */
export function readRequestId(text: string | null): string | null {
  return text !== null && FORM.test(text) ? text : null;
}

/** Makes a request id that is unique among all instances. */
export function newRequestId(): string {
  return `${instance}-${(++requests).toString(36)}`;
}

/**
 * The trace that a request belongs to, from its `traceparent` header (W3C Trace Context).
 *
 * @returns 32 hex digits; `null` if the header is absent or malformed
 * @example traceIdOf('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'); // '0af7651916cd43dd8448eb211c80319c'
 */
export function traceIdOf(traceparent: string | null): string | null {
  return (traceparent !== null && TRACEPARENT.exec(traceparent)?.[1]) || null;
}

/**
 * Whether a request may come from a web page that is not listed. Any page can send a POST to a verifier on its
 * visitor's machine or network. Browsers send the origin of such a request; other clients do not.
 */
export function isForeignOrigin({ origin, fetchSite }: RequestHead, allowed: ReadonlySet<string>): boolean {
  if (origin !== null) return !allowed.has(origin);
  return fetchSite !== null && fetchSite !== 'none' && fetchSite !== 'same-origin';
}

const PATHS = ['x-forwarded-uri', 'x-original-uri'];
const READ: ReadonlySet<string> = new Set([...GATE_HEADERS, ...PATHS, 'x-envoy-auth-partial-body']);
/** The headers with which a proxy says what the caller has sent. */
const SAID: ReadonlySet<string> = new Set([
  ...PATHS,
  'x-original-url',
  'x-forwarded-method',
  'x-original-method',
]);
const NONE: readonly string[] = [];

/** The headers of a proxied request that the gate reads. */
export class GateHead {
  /**
   * A single value is stored without an array: V8 comes to allocate such arrays in the old generation, where dead ones
   * keep bundles of up to 64 KiB alive. At depth 16 that took a quarter of the gate's own time, without signatures.
   */
  readonly #found = new Map<string, string | string[]>();

  /** Takes one header of the request. */
  add(sentName: string, sentValue: string): void {
    const name = headerName(sentName);
    if (!READ.has(name)) return;
    // A proxy takes such a header off the caller's request, but may leave a spelling of it. That one agrees with nothing.
    const isSpelling = name !== sentName && SAID.has(name);
    const value = isSpelling ? `${sentName}: ${sentValue}` : headerValue(sentValue);
    const values = this.#found.get(name);
    if (values === undefined) this.#found.set(name, value);
    else if (typeof values === 'string') this.#found.set(name, [values, value]);
    else values.push(value);
  }

  readonly headers: HeaderLookup = (name) => this.#all(name);

  /**
   * The path and query of the caller's request. If nothing else says them, `X-Original-Url` does; otherwise it is one of the
   * headers that can name another path.
   *
   * @param known what the proxy has asked with; empty if it has asked with a path of its own
   * @returns `null` if nothing says the path, or if two disagree: a caller may have sent such a header
   */
  path(known: string): string | null {
    let path = known === '' ? null : known;
    for (const name of PATHS) {
      for (const said of this.#all(name)) {
        if (path !== null && said !== path) return null;
        path = said;
      }
    }
    return path ?? this.#all('x-original-url')[0] ?? null;
  }

  /** Whether the proxy says that it has sent only a part of the body. */
  get isPartial(): boolean {
    return this.#all('x-envoy-auth-partial-body').some((value) => value.toLowerCase() !== 'false');
  }

  #all(name: string): readonly string[] {
    const values = this.#found.get(name) ?? NONE;
    return typeof values === 'string' ? [values] : values;
  }
}

const EMPTY = new GateHead();

const PREFIX = '/gate/';

/**
 * The protocol in a path `/gate/<protocol>` or a path below it: proxies append the caller's path.
 *
 * @returns `null` for any other path, and for a path with a `.` or `..` segment in any spelling: a proxy that resolves
 *   such a segment could see another protocol
 * @example gateProtocolOf('/gate/mcp/tools?x=1'); // 'mcp'
 */
export function gateProtocolOf(path: string): Protocol | null {
  if (!path.startsWith(PREFIX)) return null;
  const end = path.indexOf('/', PREFIX.length);
  const name = path.slice(PREFIX.length, end < 0 ? undefined : end);
  const protocol = GATE_PROTOCOLS.find((known) => known === name) ?? null;
  return path.includes('\\') || hasDotSegment(path) ? null : protocol;
}
