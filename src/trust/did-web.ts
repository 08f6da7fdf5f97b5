import { setTimeout as pause } from 'node:timers/promises';
import { DEFAULT_KEYS, type KeyResolver } from '../protocol/key-resolver.js';
import type { Root } from '../verify/parts.js';
import { readDocument, type DocumentKey } from './did-document.js';
import { fetchBounded, FetchError, type Fetched, type FetchFault } from './safe-fetch.js';

interface Deps {
  readonly log: Record<'info' | 'warn', (facts: object, message: string) => void>;
  /** Unix milliseconds; the clock of the host by default. */
  readonly now?: () => number;
}

/** The document of one row. Only {@link WebKeys} writes it. */
interface Followed {
  readonly did: string;
  readonly row: Root;
  readonly stop: AbortController;
  /** `null` if there is none that may be used. `at`: when it was asked for, in Unix milliseconds. */
  copy: { readonly keys: readonly DocumentKey[]; readonly at: number } | null;
  /** Why the last fetch failed; `null` if it did not. */
  fault: FetchFault | null;
  /** What calls wait for: the first fetch, for as long as one may take. */
  opening: Promise<void> | null;
}

const MAX_BYTES = 64 * 1024;
const MAX_FETCH_MS = 5_000;
const MIN_RETRY_MS = 1_000;
/** Maximum number of fetches at once. */
const MAX_FETCHES = 64;
/** Maximum number of keys that a signature is tried with. */
const MAX_TRIED = 4;

/**
 * The keys of each `did:key`, and of the `did:web` rows of an operator, whose documents it fetches in the background.
 *
 * @see docs/spec/trust.md, "Documents"
 */
export class WebKeys implements KeyResolver {
  readonly expected = `${DEFAULT_KEYS.expected}, or a did:web that its operator has added`;
  opening = 0;
  readonly #deps: Deps;
  readonly #now: () => number;
  readonly #followed = new Map<string, Followed>();
  #version = 0;
  /** Not after the time when the first copy becomes too old. */
  #endsAt = Infinity;
  #fetches = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#now = deps.now ?? Date.now;
  }

  /** Takes rows in place of those before: fetches what is new, and forgets what is gone. */
  follow(rows: Iterable<readonly [did: string, row: Root]>): void {
    const asked = new Map<string, Root>();
    for (const [did, row] of rows) if (row.web !== null) asked.set(did, row);
    for (const [did, { row, stop }] of this.#followed) {
      if (sourceOf(row) === sourceOf(asked.get(did))) asked.delete(did);
      else {
        this.#followed.delete(did);
        this.#version++;
        stop.abort();
      }
    }
    for (const [did, row] of asked) {
      const one: Followed = { did, row, stop: new AbortController(), copy: null, fault: null, opening: null };
      this.#followed.set(did, one);
      this.opening++;
      const first = this.#refresh(one);
      const limit = sleep(MAX_FETCH_MS, one.stop.signal);
      one.opening = Promise.race([first, limit]).then(() => {
        one.opening = null;
        this.opening--;
      });
      void this.#keepUp(one, first);
    }
  }

  get version(): number {
    if (this.#endsAt !== Infinity && this.#now() >= this.#endsAt) this.#dropOld();
    return this.#version;
  }

  publicKeyOf(did: string): Uint8Array | null {
    return DEFAULT_KEYS.publicKeyOf(did);
  }

  verificationMethodOf(did: string): string {
    return DEFAULT_KEYS.verificationMethodOf(did);
  }

  keysOf(did: string, kid: string | null): readonly Uint8Array[] | null {
    const one = this.#followed.get(did);
    if (one === undefined) return DEFAULT_KEYS.keysOf(did, kid);
    if (one.copy === null) return null;
    const { keys } = one.copy;
    const name = kid?.slice(kid.startsWith(`${did}#`) ? did.length : 0).replace(/^#/, '');
    const named = keys.find((key) => key.name === name);
    return (named === undefined ? keys.slice(0, MAX_TRIED) : [named]).map(({ key }) => key);
  }

  whenReady(did: string): Promise<void> | null {
    return this.#followed.get(did)?.opening ?? null;
  }

  /** How many documents came when they were last asked for, how many did not and are used still, and how many are missing. */
  get counts() {
    const counts = { fresh: 0, stale: 0, missing: 0 };
    for (const one of this.#followed.values()) {
      if (one.copy === null || this.#now() >= endOf(one)) counts.missing++;
      else counts[one.fault === null ? 'fresh' : 'stale']++;
    }
    return counts;
  }

  close(): void {
    this.follow([]);
  }

  async #keepUp(one: Followed, first: Promise<boolean>): Promise<void> {
    const { signal } = one.stop;
    const freshMs = one.row.web?.freshMs ?? 0;
    let retryMs = MIN_RETRY_MS;
    for (let isThere = await first; !signal.aborted; isThere = await this.#refresh(one)) {
      retryMs = isThere ? MIN_RETRY_MS : 2 * retryMs;
      // Instances that were started together do not ask together.
      const share = 0.8 + 0.2 * Math.random();
      await sleep(share * (isThere ? freshMs : Math.min(freshMs, retryMs)), signal);
    }
  }

  /** Fetches a document, when it is its turn. Never rejects. @returns whether that succeeded */
  async #refresh(one: Followed): Promise<boolean> {
    if (this.#fetches === MAX_FETCHES) await new Promise<void>((go) => this.#waiting.push(go));
    else this.#fetches++;
    const { signal } = one.stop;
    const limit = new AbortController();
    const late = new FetchError('timeout', `it took longer than ${MAX_FETCH_MS} ms`);
    const timer = setTimeout(() => limit.abort(late), MAX_FETCH_MS);
    const stop = () => limit.abort(late);
    signal.addEventListener('abort', stop);
    const asked = signal.aborted ? Promise.reject(late) : this.#fetch(one, limit.signal);
    const error = await asked.then(
      () => null,
      (reason: unknown) => reason as FetchError,
    );
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
    const next = this.#waiting.shift();
    if (next === undefined) this.#fetches--;
    else next();
    if (!signal.aborted) this.#note(one, error);
    return error === null;
  }

  async #fetch(one: Followed, signal: AbortSignal): Promise<void> {
    const { did, row, copy } = one;
    const at = this.#now();
    const accept = 'application/did+json, application/json;q=0.9, */*;q=0.8';
    const asked = { accept, maxBytes: MAX_BYTES, signal, addresses: row.addresses };
    // Without an ETag: what is small is read anew, as keys expire.
    const { body } = (await fetchBounded(row.web?.url as URL, asked)) as Fetched;
    const read = readDocument(body, did, at);
    if (typeof read === 'string') throw new FetchError('malformed', `${did}: ${read}`);
    // Its row went meanwhile.
    if (one.stop.signal.aborted) return;
    if (copy !== null && textOf(copy.keys) !== textOf(read)) this.#version++;
    one.copy = { keys: read, at };
    this.#endsAt = Math.min(this.#endsAt, endOf(one));
  }

  #note(one: Followed, error: FetchError | null): void {
    const { did, fault: before, copy } = one;
    const { log } = this.#deps;
    one.fault = error?.fault ?? null;
    // The clock was set back: nobody knows how old the copy is.
    if (one.fault !== null && copy !== null && this.#now() < copy.at) this.#drop(one);
    if (one.fault === before) return;
    if (one.fault === null) log.info({ did }, 'the document of a did:web can be had again');
    else {
      const usableUntil = one.copy && new Date(endOf(one));
      log.warn({ did, err: error, usableUntil }, 'the document of a did:web cannot be had');
    }
  }

  #dropOld(): void {
    this.#endsAt = Infinity;
    for (const one of this.#followed.values()) {
      if (this.#now() >= endOf(one)) this.#drop(one);
      this.#endsAt = Math.min(this.#endsAt, endOf(one));
    }
  }

  #drop(one: Followed): void {
    one.copy = null;
    this.#version++;
  }
}

/** When its copy becomes too old. */
function endOf({ copy, row: { web } }: Followed): number {
  return copy === null ? Infinity : copy.at + (web?.staleMs ?? 0);
}

/** By what a row says, where its document is had; what was had otherwise is not kept. */
function sourceOf(row: Root | undefined): string | undefined {
  return row && JSON.stringify([row.web, row.addresses]);
}

const textOf = (keys: readonly DocumentKey[]) =>
  JSON.stringify(keys.map(({ name, key }) => [name, Buffer.from(key).toString('base64')]));

const sleep = (ms: number, signal: AbortSignal) =>
  pause(ms, undefined, { ref: false, signal }).catch(() => undefined);
