import { BUNDLE_HEADER, ENVELOPE_TYPE, MAX_HEADER_BUNDLE } from '../gate/index.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import type { Delegation } from './delegation.js';
import { sendSigned } from './send-signed.js';

/** Options of {@link signFetch}. */
export interface SignFetchOptions {
  /** The command to sign for; default: the one of the delegation. */
  readonly command?: string | ((url: URL) => string);
  /** Whether to sign a request with a body; default: all. Others are sent unchanged. */
  readonly sign?: (url: URL) => boolean;
  /**
   * How the bundle is sent: in the header (default), or with the body in an `envelope`, which the tool server must take.
   * `auto`: in an envelope if the bundle has more than 4,096 characters.
   */
  readonly carrier?: 'header' | 'envelope' | 'auto';
  /** The `fetch` that sends; default: the global one. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * Makes a `fetch` that signs each request with a JSON body. The signed arguments are the body, which must be the text
 * of a JSON object. If the delegation limits tools, its member `tool` must name the tool. Requests without a body are
 * sent unchanged.
 *
 * Unless `init.redirect` says otherwise, a redirect is an error, so that no other server gets the bundle.
 *
 * @returns a function that rejects with an `IssueError` if the delegation does not allow the request, and with a
 *   `TypeError` if its body cannot be signed. Such a request is not sent
 * @example
 * const call = signFetch({ key, chain, toolServer: 'https://weather.example' });
 * await call('https://weather.example/weather', {
 *   method: 'POST',
 *   body: JSON.stringify({ tool: 'weather', city: 'Zürich' }),
 * });
 */
export function signFetch(
  delegation: Delegation,
  { command, sign, carrier = 'header', fetch = globalThis.fetch }: SignFetchOptions = {},
): typeof globalThis.fetch {
  if (!['header', 'envelope', 'auto'].includes(carrier))
    throw new TypeError(`carrier is ${JSON.stringify(carrier)}, expected "header", "envelope" or "auto"`);
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const hasBody = (init?.body ?? null) !== null || (input instanceof Request && input.body !== null);
    if (!hasBody || sign?.(url) === false) return fetch(input, init);
    const text = textOf(init?.body);
    const { value, defect } = parseStrictJson(text);
    if (defect !== undefined) throw unsignable(`it is not strict JSON: ${defect.message}`);
    if (!isJsonObject(value)) throw unsignable('it is not a JSON object');
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    // Loaded on first use: the middleware in this package must run where native modules do not.
    const { signCall } = await import('./delegation.js');
    const path = typeof command === 'function' ? command(url) : (command ?? null);
    const bundle = signCall(delegation, path, value);
    const isWrapped = carrier === 'envelope' || (carrier === 'auto' && bundle.length > MAX_HEADER_BUNDLE);
    const body = isWrapped ? `{"bundle":"${bundle}","body":${text}}` : text;
    headers.set(BUNDLE_HEADER, bundle);
    if (isWrapped) {
      headers.set('content-type', ENVELOPE_TYPE);
      headers.delete(BUNDLE_HEADER);
    }
    // For a string body, fetch() sets text/plain, which a server may refuse.
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return init?.redirect === undefined
      ? sendSigned(fetch, input, { ...init, headers, body })
      : fetch(input, { ...init, headers, body });
  };
}

function textOf(body: unknown): string {
  if (typeof body === 'string') return body;
  throw unsignable('it is not a string given as init.body');
}

function unsignable(reason: string): TypeError {
  return new TypeError(
    `cannot sign the body of this request: ${reason}; pass JSON.stringify() of an object, or leave the request out with the option sign`,
  );
}
