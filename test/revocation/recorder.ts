import { EventEmitter, once } from 'node:events';
import type { FetchOutcome, RevocationLog, RevocationObserver } from '../../src/revocation/index.js';

/** Keeps what was logged and observed, and lets a test wait for it. */
export class Recorder implements RevocationObserver {
  readonly outcomes: FetchOutcome[] = [];
  readonly lookups: string[] = [];
  readonly messages: string[] = [];
  syncs = 0;
  damagedLines = 0;
  readonly #events = new EventEmitter();
  readonly log: RevocationLog = {
    info: (_, message) => this.messages.push(`info ${message}`),
    warn: (_, message) => this.messages.push(`warn ${message}`),
    error: (_, message) => this.messages.push(`error ${message}`),
  };

  lookedUp(source: 'remote' | 'local', revoked: boolean): void {
    this.lookups.push(`${source} ${revoked}`);
  }

  statusListFetched(outcome: FetchOutcome): void {
    this.outcomes.push(outcome);
    this.#events.emit('fetched');
  }

  storeSynced(): void {
    this.syncs++;
  }

  storeLineDamaged(): void {
    this.damagedLines++;
  }

  /** Resolves when so many fetches have ended. */
  async fetched(count: number): Promise<void> {
    while (this.outcomes.length < count) await once(this.#events, 'fetched');
  }
}
