import { serviceUrl } from '../client/request.js';
import { CommandError } from './command-error.js';

const DEFAULT_URL = 'http://127.0.0.1:8080';
const TIMEOUT_SECS = 30;

/** The answer of the service. */
export interface ServiceAnswer {
  readonly status: number;
  readonly text: string;
  /** The parsed body; `undefined` if it is not JSON. */
  readonly body: unknown;
}

/**
 * Posts JSON to the service at `DRS_VERIFY_URL`.
 *
 * @throws CommandError if the service gives no answer
 */
export async function postToService(
  path: `/${string}`,
  json: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<ServiceAnswer> {
  const { url, variable } = urlOf(path);
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: json,
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_SECS * 1000),
    });
    const text = await response.text();
    return { status: response.status, text, body: parseJson(text) };
  } catch (error) {
    throw noAnswer(error, url, variable);
  }
}

/**
 * Asks the service for something that comes in pieces.
 *
 * @returns the answer, whose body has not been read
 * @throws CommandError if the service gives no answer
 */
export async function getFromService(
  path: `/${string}`,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  const { url, variable } = urlOf(path);
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(new DOMException('', 'TimeoutError')), TIMEOUT_SECS * 1000);
  try {
    return await fetch(url, { headers, redirect: 'manual', signal: giveUp.signal });
  } catch (error) {
    throw noAnswer(error, url, variable);
  } finally {
    clearTimeout(timer);
  }
}

/** The error for an answer that the command does not expect. */
export function unexpectedAnswer({ status, body }: ServiceAnswer): CommandError {
  const said = errorOf(body);
  if (status === 503 || status === 429) {
    return new CommandError(`the service refused for now: ${status} ${said}`, 'try again in a moment');
  }
  if (status === 413) {
    return new CommandError(`the service refused: 413 ${said}`, 'send less, or have MAX_BODY_BYTES raised');
  }
  return new CommandError(
    `unexpected answer from the service: ${status} ${said}`,
    'check that DRS_VERIFY_URL is the address of a drs-verify service',
  );
}

/** The `error` text of an answer, or a note that there is none. */
export function errorOf(body: unknown): string {
  if (typeof body === 'object' && body !== null && 'error' in body && typeof body.error === 'string') {
    return body.error.slice(0, 500);
  }
  return body === undefined ? '(its body is not JSON)' : '(its body is not what this command expects)';
}

/** `DRS_ADMIN_URL` is for a service whose `/admin` is on another address (`ADMIN_ON_METRICS_ADDR`). */
function urlOf(path: `/${string}`): { readonly url: URL; readonly variable: string } {
  const isAdmin = path !== '/verify' && (process.env['DRS_ADMIN_URL'] ?? '') !== '';
  const variable = isAdmin ? 'DRS_ADMIN_URL' : 'DRS_VERIFY_URL';
  try {
    return { url: serviceUrl(process.env[variable] || DEFAULT_URL, path), variable };
  } catch {
    throw new CommandError(
      `${variable} is not an http or https URL without credentials`,
      `set it to an address such as ${DEFAULT_URL}, or unset it for that one`,
    );
  }
}

function noAnswer(error: unknown, { origin }: URL, variable: string): CommandError {
  return new CommandError(
    `no answer from the service at ${origin}: ${reasonOf(error)}`,
    TLS_HINTS.find(([code]) => code.test(codeOf(error)))?.[1] ??
      `start it with \`npx drs-verify serve\`, or set ${variable} to where it runs`,
  );
}

/** What to do where a service answers, but one of the two sides does not speak TLS, or its certificate is not trusted. */
const TLS_HINTS: readonly (readonly [code: RegExp, hint: string])[] = [
  [
    /CERT|SIGNATURE|ISSUER/,
    'trust the certificate, if it is the right one: NODE_EXTRA_CA_CERTS names a file with it or with its authority',
  ],
  [/^(?:ERR_SSL|EPROTO)/, 'it seems to have no TLS: write http://'],
  [/^(?:UND_ERR_SOCKET|ECONNRESET)$/, 'try again; if the service has TLS, write https://'],
];

function codeOf(error: unknown): string {
  return ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? '';
}

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error;
  if (name === 'TimeoutError') return `nothing within ${TIMEOUT_SECS} s`;
  if (!(cause instanceof Error)) return message;
  const code = codeOf(error);
  if (code === 'ECONNREFUSED') return 'connection refused';
  return code === 'ENOTFOUND' ? 'no such host' : cause.message;
}

/** `undefined` if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
