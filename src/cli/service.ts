import { serviceUrl } from '../client/request.js';
import { requireHttpParser } from '../protocol/http-parser.js';
import { isJsonObject } from '../protocol/json.js';
import { readJson } from '../relay/message.js';
import { readSecretFiles } from '../service/configuration/secret-files.js';
import { CommandError, EXIT, type ExitCode } from './command-error.js';

const DEFAULT_URL = 'http://127.0.0.1:8080';
const TIMEOUT_SECS = 30;

export interface ServiceAnswer {
  readonly status: number;
  readonly text: string;
  /** The parsed body; `undefined` if it is not JSON. */
  readonly body: unknown;
}

/**
 * Posts JSON to the service at `DRS_VERIFY_URL`, or asks it for what `/admin` knows.
 *
 * @param json `null` to get something
 * @throws CommandError if the service gives no answer in time
 */
export async function askService(path: `/${string}`, json: string | null = null): Promise<ServiceAnswer> {
  const signal = AbortSignal.timeout(TIMEOUT_SECS * 1000);
  return fromService(path, { ...(json !== null && { method: 'POST', body: json }), signal }, readAnswer);
}

export async function readAnswer(response: Response): Promise<ServiceAnswer> {
  const text = await response.text();
  return { status: response.status, text, body: readJson(text) };
}

/**
 * Reads an answer of the service, which may come in pieces.
 *
 * @throws CommandError if the service gives no answer, or reading it fails
 */
export async function fromService<T>(
  path: `/${string}`,
  init: RequestInit,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  const isAdmin = path !== '/verify';
  // `/admin` may be on another address (ADMIN_ON_METRICS_ADDR).
  const variable =
    isAdmin && (process.env['DRS_ADMIN_URL'] ?? '') !== '' ? 'DRS_ADMIN_URL' : 'DRS_VERIFY_URL';
  let url: URL;
  try {
    url = serviceUrl(process.env[variable] || DEFAULT_URL, path);
  } catch {
    throw new CommandError(
      `${variable} is not an http or https URL without credentials`,
      `set it to an address such as ${DEFAULT_URL}, or unset it for that one`,
    );
  }
  const headers = {
    ...(init.body !== undefined && { 'Content-Type': 'application/json' }),
    ...(isAdmin && { Authorization: `Bearer ${readAdminToken()}` }),
  };
  try {
    requireHttpParser();
    return await read(await fetch(url, { ...init, headers, redirect: 'manual' }));
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const { name, message, cause } = error as Error;
    const { code = '' } = (cause ?? {}) as NodeJS.ErrnoException;
    let reason = cause instanceof Error ? cause.message : message;
    if (name === 'TimeoutError') reason = `nothing within ${TIMEOUT_SECS} s`;
    if (code === 'ECONNREFUSED') reason = 'connection refused';
    if (code === 'ENOTFOUND') reason = 'no such host';
    throw new CommandError(
      `no answer from the service at ${url.origin}: ${reason}`,
      TLS_HINTS.find(([codes]) => codes.test(code))?.[1] ??
        `start it with \`npx drs-verify serve\`, or set ${variable} to where it runs`,
    );
  }
}

/** @throws CommandError if there is no token, or one that no request can carry */
function readAdminToken(): string {
  const { secrets, problems } = readSecretFiles(process.env, ['drsAdminToken']);
  const [defect] = problems;
  if (defect !== undefined) throw new CommandError(defect, 'name a file with the token of the service');
  const inFile = secrets.get('drsAdminToken');
  const token = inFile ?? process.env['DRS_ADMIN_TOKEN'] ?? '';
  // Check the token first: the error message of `fetch` for an invalid header value would contain it.
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new CommandError(
    token === ''
      ? 'DRS_ADMIN_TOKEN is not set'
      : `DRS_ADMIN_TOKEN${inFile === undefined ? '' : '_FILE'} holds a space or another character no token has`,
    'set it to the value of DRS_ADMIN_TOKEN that the service runs with, or DRS_ADMIN_TOKEN_FILE to a file with it',
  );
}

/** What to do about what the service refuses. */
const HINTS: Readonly<Record<number, string>> = {
  400: 'check the files and options of the command',
  401: 'check that DRS_ADMIN_TOKEN is the one of this service',
  404: 'check the address; with ADMIN_ON_METRICS_ADDR=1, /admin is on METRICS_ADDR: set DRS_ADMIN_URL to that, such as http://127.0.0.1:9464',
  413: 'send less, or have MAX_BODY_BYTES raised',
  429: 'try again in a moment',
  503: 'try again in a moment; if it stays so, look at the configuration and the log of the service',
};

/**
 * The error for an answer that the command does not expect.
 *
 * @param exitCode if the service, and not another server, refuses what it was asked
 */
export function unexpectedAnswer(
  { status, body }: ServiceAnswer,
  exitCode: ExitCode = EXIT.failed,
): CommandError {
  const error = isJsonObject(body) ? body['error'] : undefined;
  const isOfService = typeof error === 'string';
  const nothing = `(its body is not ${body === undefined ? 'JSON' : 'what this command expects'})`;
  const said = `${status} ${isOfService ? error.slice(0, 500) : nothing}`;
  const hint = HINTS[status];
  if (isOfService && hint !== undefined)
    return new CommandError(`the service refused: ${said}`, hint, exitCode);
  return new CommandError(
    `unexpected answer from the service: ${said}`,
    'check that DRS_VERIFY_URL is the address of a drs-verify service',
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
