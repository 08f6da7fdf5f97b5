import { BUNDLE_HEADER } from '../gate/index.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import type { Delegation } from './delegation.js';

/** Options of {@link signFetch}. */
export interface SignFetchOptions {
  /** The command to sign for; default: the one of the delegation. */
  readonly command?: string | ((url: URL) => string);
  /** Whether a request with a body is signed; default: every one. Others go out as they are. */
  readonly sign?: (url: URL) => boolean;
  /** Sends; default: the global one. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * A `fetch` that signs each request with a JSON body, as it is sent. The body is what is signed: it must be the text of a
 * JSON object, with the name of the tool in `tool` where the delegation limits tools. Requests without a body go out as
 * they are.
 *
 * A redirect is an error unless `init.redirect` says otherwise, so that no other server gets the bundle.
 *
 * @returns rejects with an `IssueError` for a request that the delegation does not allow, and with a `TypeError` for one
 *   whose body cannot be signed; neither is sent
 * @example
 * const call = signFetch({ key, chain, toolServer: 'https://weather.example' });
 * await call('https://weather.example/weather', {
 *   method: 'POST',
 *   body: JSON.stringify({ tool: 'weather', city: 'Zürich' }),
 * });
 */
export function signFetch(
  delegation: Delegation,
  { command, sign, fetch = globalThis.fetch }: SignFetchOptions = {},
): typeof globalThis.fetch {
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const hasBody = (init?.body ?? null) !== null || (input instanceof Request && input.body !== null);
    if (!hasBody || sign?.(url) === false) return fetch(input, init);
    const { value, defect } = parseStrictJson(textOf(init?.body));
    if (defect !== undefined) throw unsignable(`it is not strict JSON: ${defect.message}`);
    if (!isJsonObject(value)) throw unsignable('it is not a JSON object');
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    // Loaded when it is first needed: the middleware beside it runs where nothing native does.
    const { signCall } = await import('./delegation.js');
    const path = typeof command === 'function' ? command(url) : (command ?? null);
    headers.set(BUNDLE_HEADER, signCall(delegation, path, value));
    // fetch() calls a string text/plain, of which a server need not take arguments.
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return fetch(input, { redirect: 'error', ...init, headers });
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
