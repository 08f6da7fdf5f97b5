import { EventEmitter, once } from 'node:events';
import type { FetchOutcome, RevocationLog, RevocationObserver } from '../../src/revocation/index.js';

/** Keeps what was logged and observed, and lets a test wait for it. */
export class Recorder implements RevocationObserver {
  readonly outcomes: FetchOutcome[] = [];
  readonly rootOutcomes: FetchOutcome[] = [];
  readonly lookups: string[] = [];
  readonly messages: string[] = [];
  /** The members of each message. */
  readonly details: Record<string, unknown>[] = [];
  /** Milliseconds of each fetch and each sync. */
  readonly durations: number[] = [];
  syncs = 0;
  readonly #events = new EventEmitter();
  readonly log: RevocationLog = {
    info: (details, message) => this.#note('info', details, message),
    warn: (details, message) => this.#note('warn', details, message),
    error: (details, message) => this.#note('error', details, message),
  };

  lookedUp(source: 'remote' | 'local', revoked: boolean): void {
    this.lookups.push(`${source} ${revoked}`);
  }

  statusListFetched(outcome: FetchOutcome, milliseconds: number): void {
    this.outcomes.push(outcome);
    this.durations.push(milliseconds);
    this.#events.emit('fetched');
  }

  rootListFetched(outcome: FetchOutcome): void {
    this.rootOutcomes.push(outcome);
    this.#events.emit('root fetched');
  }

  storeSynced(milliseconds: number): void {
    this.syncs++;
    this.durations.push(milliseconds);
  }

  /** Resolves when so many fetches have ended. */
  async fetched(count: number): Promise<void> {
    while (this.outcomes.length < count) await once(this.#events, 'fetched');
  }

  /** The same for lists of roots. */
  async rootFetched(count: number): Promise<void> {
    while (this.rootOutcomes.length < count) await once(this.#events, 'root fetched');
  }

  #note(level: string, details: object, message: string): void {
    this.messages.push(`${level} ${message}`);
    this.details.push({ ...details });
  }
}
