import { BUNDLE_HEADER, ENVELOPE_TYPE, MAX_HEADER_BUNDLE } from '../gate/carriers.js';
import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import {
  callback,
  checkedOptions,
  kindOf,
  oneOf,
  type GivenOptions,
  type Table,
} from '../protocol/options.js';
import { readInput, sendSigned, signCall, whyNoHeader, type Delegation } from './delegation.js';

const OPTIONS = {
  /** The command to sign for; default: the one of the delegation. */
  command: {
    kind: kindOf<string | ((url: URL) => string)>('a command, or a function of the URL', (value) =>
      ['string', 'function'].includes(typeof value),
    ),
  },
  /** Whether to sign a request that can be signed; default: all. Others are sent unchanged. */
  sign: { kind: callback<(url: URL) => boolean>() },
  /**
   * The arguments besides the body: those that the server's route takes from path and query, decoded, by name, and `tool`
   * if the body does not have it. With these, a request without a body is signed, too. `null`: the body alone is signed,
   * and a request without one is sent unchanged.
   *
   * @param method in upper case
   */
  parameters: { kind: callback<(url: URL, method: string) => Readonly<Record<string, string>> | null>() },
  /**
   * How the bundle is sent: in the header (default), or with the body in an `envelope`, which the tool server must take.
   * `auto`: in an envelope if the bundle has more than 4,096 characters.
   */
  carrier: { kind: oneOf('header', 'envelope', 'auto'), default: 'header' },
  /** The `fetch` that sends; default: the global one. */
  fetch: { kind: callback<typeof globalThis.fetch>(), default: () => globalThis.fetch },
} satisfies Table;

/** Options of {@link signFetch}. */
export interface SignFetchOptions extends GivenOptions<typeof OPTIONS> {}

/**
 * Makes a `fetch` that signs each request with a JSON body. The signed arguments are the body, which must be the text
 * of a JSON object, and what the option `parameters` adds. If the delegation limits tools, the member `tool` must name
 * the tool. Without `parameters`, requests without a body are sent unchanged.
 *
 * Unless `init.redirect` says otherwise, a redirect is an error, so that no other server gets the bundle.
 *
 * @returns a function that rejects with an `IssueError` if the delegation does not allow the request, and with a
 *   `TypeError` if it cannot be signed: for its body, or because an argument is in `parameters` and in the body. Such a
 *   request is not sent
 * @throws TypeError if an option is unknown or not of its kind
 * @example
 * const call = signFetch({ key, chain, toolServer: 'https://weather.example' });
 * await call('https://weather.example/weather', {
 *   method: 'POST',
 *   body: JSON.stringify({ tool: 'weather', city: 'Zürich' }),
 * });
 */
export function signFetch(delegation: Delegation, options: SignFetchOptions = {}): typeof globalThis.fetch {
  const { command, sign, parameters, carrier, fetch } = checkedOptions(options, OPTIONS);
  return async (input, init) => {
    const { request, url } = readInput(input);
    if (sign?.(url) === false) return fetch(input, init);
    const { method, hasBody, headers } = sentOf(request, init);
    const given = readParameters(parameters?.(url, method) ?? null);
    if (!hasBody && given === null) return fetch(input, init);
    const text = hasBody ? textOf(init?.body) : null;
    const args = withBody(given ?? {}, text === null ? {} : membersOf(text));
    const path = typeof command === 'function' ? command(url) : (command ?? null);
    const bundle = await signCall(delegation, path, args);
    const sent = { ...init, ...carry(bundle, text, headers, carrier) };
    return init?.redirect === undefined ? sendSigned(fetch, input, sent) : fetch(input, sent);
  };
}

/** What `fetch()` would send: what `init` says counts before what the request says. */
function sentOf(request: Request | null, init: RequestInit | undefined) {
  return {
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    hasBody: (init?.body ?? request?.body ?? null) !== null,
    headers: new Headers(init?.headers ?? request?.headers),
  };
}

/** Puts a bundle into the headers, or into an envelope with the body. */
function carry(
  bundle: string,
  text: string | null,
  headers: Headers,
  carrier: 'header' | 'envelope' | 'auto',
): RequestInit {
  if (
    text !== null &&
    (carrier === 'envelope' || (carrier === 'auto' && bundle.length > MAX_HEADER_BUNDLE))
  ) {
    headers.set('content-type', ENVELOPE_TYPE);
    headers.delete(BUNDLE_HEADER);
    return { headers, body: `{"bundle":"${bundle}","body":${text}}` };
  }
  const reason = whyNoHeader(bundle);
  if (reason !== null)
    throw new TypeError(
      `cannot sign this request: ${reason}; send less, or a body with the option carrier: 'auto'`,
    );
  headers.set(BUNDLE_HEADER, bundle);
  // For a string body, fetch() sets text/plain, which a server may refuse.
  if (text !== null && !headers.has('content-type')) headers.set('content-type', 'application/json');
  return { headers };
}

function readParameters(answer: unknown): JsonObject | null {
  if (answer === null) return null;
  if (isJsonObject(answer) && Object.values(answer).every((value) => typeof value === 'string'))
    return answer;
  throw new TypeError('the option parameters of signFetch must give an object of strings, or null');
}

/** The arguments of a route: a server refuses one that comes in two places. */
function withBody(parameters: JsonObject, body: JsonObject): JsonObject {
  const twice = Object.keys(parameters).find((name) => Object.hasOwn(body, name));
  if (twice === undefined) return { ...parameters, ...body };
  throw new TypeError(
    `cannot sign this request: ${JSON.stringify(twice)} is in parameters and in the body; send each argument in one place`,
  );
}

function textOf(body: unknown): string {
  if (typeof body === 'string') return body;
  throw unsignable('it is not a string given as init.body');
}

function membersOf(text: string): JsonObject {
  const { value, defect } = parseStrictJson(text);
  if (defect !== undefined) throw unsignable(`it is not strict JSON: ${defect.message}`);
  if (!isJsonObject(value)) throw unsignable('it is not a JSON object');
  return value;
}

function unsignable(reason: string): TypeError {
  return new TypeError(
    `cannot sign the body of this request: ${reason}; pass JSON.stringify() of an object, or leave the request out with the option sign`,
  );
}
