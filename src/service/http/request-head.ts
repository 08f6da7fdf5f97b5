import type { HttpRequest } from './front-end.js';
import { GateHead } from './gate-head.js';
import { readRequestId } from './request-id.js';

/** The headers of a request that every route needs. */
export interface RequestHead {
  /** `Content-Length`; 0 if it is absent. */
  readonly contentLength: number;
  /** Whether a body follows. */
  readonly hasBody: boolean;
  /** Why it is unclear where the body ends; `null` if it is clear. */
  readonly framingFault: string | null;
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

const EMPTY = new GateHead();

let lengths = 0;
let codings = 0;
let contentLength = '';
let coding = '';
let origin: string | null = null;
let fetchSite: string | null = null;
let requestId: string | null = null;
let traceparent: string | null = null;
let forwardedFor: string | null = null;

function readHeader(name: string, value: string): void {
  // The length check comes first because it is cheap and excludes most headers.
  const { length } = name;
  if (length !== 14 && length !== 17 && length !== 6 && length !== 12 && length !== 11 && length !== 15)
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
    contentLength: lengths === 0 ? 0 : Number(contentLength),
    hasBody: codings > 0 || (lengths > 0 && contentLength !== '0'),
    framingFault: findFramingFault(),
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
