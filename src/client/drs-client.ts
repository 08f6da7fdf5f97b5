import { requireHttpParser } from '../protocol/http-parser.js';
import { isJsonObject } from '../protocol/json.js';
import { isLoopback } from '../protocol/loopback.js';
import { callback, checkedOptions, count, flag, type GivenOptions, type Table } from '../protocol/options.js';
import { CALL_OPTIONS, type VerifyOptions } from '../verifier/call-options.js';
import type { Verdict } from '../verifier/verdict.js';
import { Deadline, Exchanges, timeIsOver } from './exchanges.js';
import { readVerdict, serviceUrl, writeRequest } from './request.js';
import { postByFetch, type Answer } from './transport-web.js';

const OPTIONS = {
  /** Time limit for one verification in milliseconds, including retries; default 5000. */
  timeoutMs: { kind: count(1), default: 5000 },
  /** Maximum number of retries if nothing was checked; default 2. */
  retries: { kind: count(0), default: 2 },
  /** Maximum number of connections over Node's sockets; default 16; 0 is no limit. Each is kept alive and carries one request at a time. */
  connections: { kind: count(0), default: 16 },
  /**
   * Whether calls that are made while others are under way go together, in one request of several lines. A call never
   * waits for company. Default `true`; `false` on Cloudflare Workers, which cancel a connection with the request that opened it.
   */
  shareExchanges: { kind: flag, default: () => userAgent() !== 'Cloudflare-Workers' },
  /** Takes `http:` of another machine: whoever is on the way can read bundles, and answer in the service's place. */
  allowHttp: { kind: flag, default: false },
  /** A `fetch` to use instead of Node's sockets; default where there are none: the global one. */
  fetch: { kind: callback<typeof globalThis.fetch>() },
} satisfies Table;

/** Options of {@link DrsClient}. */
export interface DrsClientOptions extends GivenOptions<typeof OPTIONS> {}

/**
 * Why there is no verdict:
 *
 * - `unreachable`: no connection to the service; nothing was checked
 * - `overloaded`: the service answered 503 or 429; nothing was checked
 * - `timeout`: no answer in time
 * - `interrupted`: the connection was lost after the bundle was sent
 * - `rejected`: the service answered with another status, such as 413 for too large a body
 * - `not_a_verdict`: the answer is not from a drs-verify service
 */
export type DrsClientErrorCode =
  'unreachable' | 'overloaded' | 'timeout' | 'interrupted' | 'rejected' | 'not_a_verdict';

/**
 * There is no verdict. The error says nothing about the bundle; refuse the call.
 *
 * @example if (error instanceof DrsClientError && error.code === 'overloaded') answer(503);
 */
export class DrsClientError extends Error {
  override readonly name = 'DrsClientError';
  readonly code: DrsClientErrorCode;
  /** The HTTP status, if the service answered. */
  readonly status: number | undefined;

  constructor(
    code: DrsClientErrorCode,
    message: string,
    { status, ...options }: { readonly status?: number; readonly cause?: unknown } = {},
  ) {
    super(message, options);
    this.code = code;
    this.status = status;
  }
}

const userAgent = () =>
  (globalThis as { readonly navigator?: { readonly userAgent?: string } }).navigator?.userAgent;

const { now: _, ...ASK_OPTIONS } = CALL_OPTIONS;
const FIRST_DELAY_MS = 50;

/**
 * A client of a verification service. Create it once and share it.
 *
 * @example
 * const client = new DrsClient('http://127.0.0.1:8080');
 * const verdict = await client.verify(bundle, { body: { tool: 'search', query: 'tea' } });
 * if (!verdict.valid) console.error(verdict.error.code);
 * await client.close();
 */
export class DrsClient {
  readonly #url: URL;
  readonly #options;
  #exchanges: Promise<Exchanges> | null = null;
  #isClosed = false;

  /**
   * @param url the address of the service (`DRS_VERIFY_URL`), without `/verify`
   * @throws TypeError if it is not an https URL without credentials (or http, of this machine), or an option is unknown or not of its kind
   */
  constructor(url: string | URL, options: DrsClientOptions = {}) {
    this.#options = checkedOptions(options, OPTIONS);
    this.#url = serviceUrl(url, '/verify');
    const { protocol, hostname } = this.#url;
    if (protocol === 'http:' && !isLoopback(hostname) && !this.#options.allowHttp)
      throw new TypeError(
        'the service is at http: of another machine: use https:, or new DrsClient(url, { allowHttp: true })',
      );
  }

  /**
   * Asks the service for the verdict on a bundle.
   *
   * @param bundle a bundle as `JSON.parse` gives it
   * @param given.body the body of the call as a JSON value: triggers the binding check
   * @param given.bodyText the body of the call as JSON text, sent unchanged; replaces `body`
   * @param given.details whether a valid verdict should have `details`
   * @returns the verdict; see docs/spec/verdict.md
   * @throws DrsClientError if there is no verdict
   * @throws TypeError for an unknown option: a misspelt `body` would be compared with nothing
   */
  async verify(bundle: unknown, given: Omit<VerifyOptions, 'now'> = {}): Promise<Verdict> {
    const call = checkedOptions(given, ASK_OPTIONS);
    const asked = call.details === true && isJsonObject(bundle) ? { ...bundle, details: true } : bundle;
    const { json, hadBody, isBodyUnusable } = writeRequest(asked, call);
    const verdict = await this.#ask(json, hadBody);
    if (!isBodyUnusable || !verdict.valid) return verdict;
    const binding = 'invalid_body' as const;
    return { ...verdict, binding, ...(verdict.details && { details: { ...verdict.details, binding } }) };
  }

  /** Lets running verifications finish, then closes the connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#exchanges)?.close();
  }

  async #open(): Promise<Exchanges> {
    const { connections, shareExchanges, fetch } = this.#options;
    if (fetch === undefined) requireHttpParser();
    const transport =
      fetch === undefined
        ? (await import('#transport')).openTransport(this.#url, connections)
        : postByFetch(this.#url, fetch);
    return new Exchanges(transport, connections, shareExchanges);
  }

  async #ask(json: string, hadBody: boolean): Promise<Verdict> {
    if (this.#isClosed) throw new DrsClientError('unreachable', 'the client is closed');
    const exchanges = await (this.#exchanges ??= this.#open());
    const { timeoutMs } = this.#options;
    const deadline = new Deadline(timeoutMs);
    try {
      const answer = await this.#postWithRetries(exchanges, json, deadline);
      const verdict = answer.status === 200 ? readVerdict(answer.text, hadBody) : null;
      if (verdict === null) throw unexpected(answer);
      return verdict;
    } catch (cause) {
      if (!deadline.isOver) throw cause;
      const found = `no verdict from ${this.#url.origin} within ${timeoutMs} ms`;
      const message = `${found}; look at its /readyz and load, or raise timeoutMs`;
      throw new DrsClientError('timeout', message, { cause });
    } finally {
      deadline.clear();
    }
  }

  async #postWithRetries(exchanges: Exchanges, json: string, deadline: Deadline): Promise<Answer> {
    const { retries } = this.#options;
    for (let attempt = 0; ; attempt++) {
      let delayMs = FIRST_DELAY_MS * 2 ** attempt;
      try {
        const answer = await exchanges.post(json, deadline);
        if (answer.status !== 503 || attempt >= retries) return answer;
        // Wait as long as `Retry-After` says, but never less than our own delay, in case it says 0.
        delayMs = Math.max(delayMs, Number(answer.retryAfter ?? 0) * 1000 || 0);
      } catch (error) {
        if (deadline.isOver) throw error;
        const isSafe = neverConnected(error);
        if (!isSafe || attempt >= retries) {
          const { message, code } = error as NodeJS.ErrnoException;
          const { origin } = this.#url;
          const reason = message || code || 'no reason given';
          const found = isSafe
            ? `cannot connect to ${origin}: ${reason}; start it, or correct the address`
            : `lost the connection to ${origin} before a verdict: ${reason}; try again`;
          throw new DrsClientError(isSafe ? 'unreachable' : 'interrupted', found, { cause: error });
        }
      }
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(resolve, delayMs);
        deadline.onOver = () => {
          clearTimeout(timer);
          reject(timeIsOver());
        };
      });
    }
  }
}

function unexpected({ status, text }: Answer): DrsClientError {
  const check = 'check that the address is that of a drs-verify service';
  const message = `the answer (status ${status}) is not a verdict; ${check}`;
  if (status === 200 || (status >= 300 && status < 400))
    return new DrsClientError('not_a_verdict', message, { status });
  const answered = `the service answered ${status} ${text.slice(0, 200)}`;
  if (status === 503 || status === 429)
    return new DrsClientError('overloaded', `${answered}; try again in a moment`, { status });
  const remedy = status === 413 ? 'raise its MAX_BODY_BYTES, or send less' : check;
  return new DrsClientError('rejected', `${answered}; ${remedy}`, { status });
}

const NEVER_CONNECTED: ReadonlySet<unknown> = new Set(
  'ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH UND_ERR_CONNECT_TIMEOUT'.split(' '),
);

/** Whether a request failed before anything of it could have been sent. */
function neverConnected(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof AggregateError && cause.errors.length > 0) return cause.errors.every(neverConnected);
    if (NEVER_CONNECTED.has((cause as NodeJS.ErrnoException).code)) return true;
  }
  return false;
}
