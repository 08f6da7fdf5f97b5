import { createBundle, encodeBundle } from '../protocol/bundle.js';
import type { Signer } from '../issue/signer.js';
import type { JsonObject } from '../protocol/json.js';
import type { Tools } from '../verify/tools.js';

/**
 * A header limit in bytes that is enough for a bundle of 16 receipts with large policies. By default, Node.js accepts
 * 16 KiB of headers, which is enough for about 12 receipts.
 *
 * @example createServer({ maxHeaderSize: BUNDLE_HEADER_ROOM }, app);
 */
export const BUNDLE_HEADER_ROOM = 64 * 1024;

/** {@link BUNDLE_HEADER_ROOM} is not the bundle's alone. */
const MAX_IN_HEADER = 60_000;

/** Why a bundle cannot go into a header: servers and proxies take no longer ones. `null` if it can. */
export function whyNoHeader({ length }: string): string | null {
  if (length <= MAX_IN_HEADER) return null;
  return `its bundle has ${length} characters, and headers have at most ${MAX_IN_HEADER}`;
}

/** What an agent needs to sign its calls. */
export interface Delegation {
  /** The key of the last delegate, in memory or elsewhere. */
  readonly key: Signer;
  /** All receipts, root first. */
  readonly chain: readonly string[];
  /** The tool server that the calls are for: its `did:key`, or the URL by which it knows itself. */
  readonly toolServer: string;
}

/**
 * Signs one call under a delegation.
 *
 * @param command `null` for the command of the delegation itself
 * @param tools what the operator of the tool server says; `null` if that is not known: then it may say what the call does not
 * @returns the bundle, encoded as for the header
 * @throws IssueError if the delegation does not allow the call
 */
export async function signCall(
  { key, chain, toolServer }: Delegation,
  command: string | null,
  args: JsonObject,
  tools: Tools | null = null,
): Promise<string> {
  // Loaded on first use: under Node it loads native code, which the rest of the middleware does without.
  const { issueCall } = await import('../issue/delegation.js');
  const call = { key, chain, toolServer, ...(command === null ? {} : { command }), args };
  return encodeBundle(createBundle({ receipts: chain, invocation: await issueCall(call, tools) }));
}

/** What a `fetch` is asked for. A `Request` or URL may be of any realm: tests and pages have their own. */
export function readInput(input: string | URL | Request): {
  readonly request: Request | null;
  readonly url: URL;
} {
  return typeof input === 'string' || 'href' in input
    ? { request: null, url: new URL(input) }
    : { request: input, url: new URL(input.url) };
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Sends a request that carries a bundle, and follows no redirect: the bundle is for this server alone.
 *
 * @throws Error that names the location, if the server answers with a redirect
 */
export async function sendSigned(
  fetch: typeof globalThis.fetch,
  input: string | URL | Request,
  init: RequestInit,
): Promise<Response> {
  const response = await fetch(input, { ...init, redirect: 'manual' });
  // Browsers hide the status and the location.
  if (response.type !== 'opaqueredirect' && !REDIRECTS.has(response.status)) return response;
  const location = response.headers.get('location');
  await response.body?.cancel();
  const where = location === null ? 'another address' : JSON.stringify(location.slice(0, 200));
  throw new Error(
    `the server redirects this signed request to ${where}, and a bundle goes to no other address: call that one, if you trust it`,
  );
}
