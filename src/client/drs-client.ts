import { isJsonObject } from '../protocol/json.js';
import { callback, checkedOptions, count, flag, type GivenOptions, type Table } from '../protocol/options.js';
import { CALL_OPTIONS, type VerifyOptions } from '../verifier/call-options.js';
import type { Verdict } from '../verifier/verdict.js';
import { DrsClientError } from './client-error.js';
import { Deadline, postOneByOne, SharedExchanges, timeIsOver, type Poster } from './exchanges.js';
import { neverConnected, postByFetch, type Answer } from './post.js';
import { readVerdict, serviceUrl, writeRequest } from './request.js';

const OPTIONS = {
  /** Time limit for one verification in milliseconds, including retries; default 5000. */
  timeoutMs: { kind: count(1), default: 5000 },
  /** Maximum number of retries if nothing was checked; default 2. */
  retries: { kind: count(0), default: 2 },
  /** Maximum number of connections over Node's sockets; default 16; 0 is no limit. Each is kept alive and carries one request at a time. */
  connections: { kind: count(0), default: 16 },
  /**
   * Whether calls that are made while others are under way go together, in one request of several lines. A call never
   * waits for company. Default `true`; `false` on Cloudflare Workers, where no request may wait for another's connection.
   */
  shareExchanges: { kind: flag, default: () => !isConnectionOfOneRequest() },
  /** A `fetch` to use instead of Node's sockets; default where there are none: the global one. */
  fetch: { kind: callback<typeof globalThis.fetch>() },
} satisfies Table;

/** Options of {@link DrsClient}. */
export interface DrsClientOptions extends GivenOptions<typeof OPTIONS> {}

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
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #openPoster: () => Promise<Poster>;
  #poster: Promise<Poster> | null = null;
  #isClosed = false;

  /**
   * @param url the address of the service (`DRS_VERIFY_URL`), without `/verify`
   * @throws TypeError if it is not an http or https URL without credentials, or an option is unknown or not of its kind
   */
  constructor(url: string | URL, options: DrsClientOptions = {}) {
    const { timeoutMs, retries, connections, shareExchanges, fetch } = checkedOptions(options, OPTIONS);
    this.#url = serviceUrl(url, '/verify');
    this.#timeoutMs = timeoutMs;
    this.#retries = retries;
    this.#openPoster = async () => {
      const transport =
        fetch === undefined
          ? (await import('#transport')).openTransport(this.#url, connections)
          : postByFetch(this.#url, fetch);
      return shareExchanges ? new SharedExchanges(transport, connections) : postOneByOne(transport);
    };
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

  /**
   * Asks the service for the verdict on a bundle that is JSON text, sent unchanged.
   *
   * @param json the text of a bundle, which may have a `body`
   * @returns the verdict; see docs/spec/verdict.md
   * @throws SyntaxError if it is not JSON
   * @throws DrsClientError if there is no verdict
   * @example const verdict = await client.verifyText(await readFile('bundle.json', 'utf8'));
   */
  async verifyText(json: string): Promise<Verdict> {
    const bundle: unknown = JSON.parse(json);
    return this.#ask(json, isJsonObject(bundle) && Object.hasOwn(bundle, 'body'));
  }

  /** Lets running verifications finish, then closes the connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#poster)?.close();
  }

  async #ask(json: string, hadBody: boolean): Promise<Verdict> {
    const answer = await this.#postWithRetries(json);
    const verdict = answer.status === 200 ? readVerdict(answer.text, hadBody) : null;
    if (verdict === null) throw unexpected(answer);
    return verdict;
  }

  async #postWithRetries(json: string): Promise<Answer> {
    if (this.#isClosed) throw new DrsClientError('unreachable', 'the client is closed');
    this.#poster ??= this.#openPoster();
    const poster = await this.#poster;
    const deadline = new Deadline(this.#timeoutMs);
    try {
      for (let attempt = 0; ; attempt++) {
        let delayMs = FIRST_DELAY_MS * 2 ** attempt;
        try {
          const answer = await poster.post(json, deadline);
          if (answer.status !== 503 || attempt >= this.#retries) return answer;
          // Wait as long as `Retry-After` says, but never less than our own delay, in case it says 0.
          delayMs = Math.max(delayMs, Number(answer.retryAfter ?? 0) * 1000 || 0);
        } catch (error) {
          if (deadline.isOver) throw error;
          const isSafe = neverConnected(error);
          if (!isSafe || attempt >= this.#retries) throw failed(error, isSafe, this.#url);
        }
        await sleep(delayMs, deadline);
      }
    } catch (error) {
      throw deadline.isOver ? this.#timedOut(error) : error;
    } finally {
      deadline.clear();
    }
  }

  #timedOut(cause: unknown): DrsClientError {
    return new DrsClientError(
      'timeout',
      `no verdict from ${this.#url.origin} within ${this.#timeoutMs} ms; look at its /readyz and load, or raise timeoutMs`,
      { cause },
    );
  }
}

function unexpected({ status, text }: Answer): DrsClientError {
  if (status === 200 || (status >= 300 && status < 400)) {
    return new DrsClientError(
      'not_a_verdict',
      `the answer (status ${status}) is not a verdict; check that the address is that of a drs-verify service`,
      { status },
    );
  }
  const isBusy = status === 503 || status === 429;
  return new DrsClientError(
    isBusy ? 'overloaded' : 'rejected',
    `the service answered ${status} ${text.slice(0, 200)}; ` +
      (isBusy
        ? 'try again in a moment'
        : status === 413
          ? 'raise its MAX_BODY_BYTES, or send less'
          : 'check that the address is that of a drs-verify service'),
    { status },
  );
}

function failed(error: unknown, wasNeverConnected: boolean, { origin }: URL): DrsClientError {
  const { message, code } = error as NodeJS.ErrnoException;
  const reason = message || code || 'no reason given';
  return wasNeverConnected
    ? new DrsClientError(
        'unreachable',
        `cannot connect to ${origin}: ${reason}; start it, or correct the address`,
        {
          cause: error,
        },
      )
    : new DrsClientError(
        'interrupted',
        `lost the connection to ${origin} before a verdict: ${reason}; try again`,
        {
          cause: error,
        },
      );
}

function sleep(ms: number, deadline: Deadline): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    deadline.onOver = () => {
      clearTimeout(timer);
      reject(timeIsOver());
    };
  });
}

/** Cloudflare Workers cancel a connection with the request that has opened it, whoever waits for its answer. */
function isConnectionOfOneRequest(): boolean {
  const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } };
  return navigator?.userAgent === 'Cloudflare-Workers';
}
