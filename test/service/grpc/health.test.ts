import { EventEmitter } from 'node:events';
import { status as Status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { Health } from '../../../src/service/grpc/health.js';
import { writeHealthResponse } from '../../../src/service/grpc/messages.js';
import { eventually } from '../../support/eventually.js';

const NAMES = ['', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'];
const nameOf = (answer: Buffer | undefined) =>
  NAMES.find((_, status) => answer?.equals(writeHealthResponse({ status }))) ?? 'something else';

let callers = 0;

/** A stream to a caller that watches: 64 real ones would be 64 connections. */
class Watcher extends EventEmitter {
  readonly request: { readonly service: string };
  readonly address: string;
  readonly told: string[] = [];
  readonly errors: unknown[] = [];
  isEnded = false;
  /** @param address of the caller; default: of another one each */
  constructor(service = '', address = `192.0.2.${++callers}`) {
    super();
    this.address = address;
    this.request = { service };
    this.on('error', ({ code }: { code: unknown }) => this.errors.push(code));
  }
  getPeer = () => `${this.address}:1`;
  write = (answer: Buffer) => this.told.push(nameOf(answer));
  end = () => (this.isEnded = true);
}

function open() {
  const state = { isReady: true };
  const health = new Health(() => state.isReady, ['a.Service']);
  const watch = (watcher: Watcher) => {
    health.watch(watcher as unknown as Parameters<typeof health.watch>[0]);
    return watcher;
  };
  const check = (service: string): string => {
    let said = 'nothing';
    health.check({ request: { service } } as Parameters<typeof health.check>[0], (error, answer) => {
      said = error === null ? nameOf(answer ?? undefined) : `error ${String(error.code)}`;
    });
    return said;
  };
  return { state, health, watch, check };
}

describe('health over gRPC', () => {
  it('is that of the service, by each of its names', () => {
    const { state, check } = open();
    expect([check(''), check('a.Service')]).toEqual(['SERVING', 'SERVING']);
    state.isReady = false;
    expect([check(''), check('a.Service'), check('b.Service')]).toEqual([
      ...['NOT_SERVING', 'NOT_SERVING', `error ${Status.NOT_FOUND}`],
    ]);
  });

  it('is told to watchers at once, and then when it changes', async () => {
    const { state, health, watch } = open();
    const [known, unknown] = [watch(new Watcher('a.Service')), watch(new Watcher('b.Service'))];
    expect([known.told, unknown.told]).toEqual([['SERVING'], ['SERVICE_UNKNOWN']]);
    state.isReady = false;
    await eventually(() => expect(known.told).toEqual(['SERVING', 'NOT_SERVING']));
    state.isReady = true;
    await eventually(() => expect(known.told).toEqual(['SERVING', 'NOT_SERVING', 'SERVING']));
    expect(unknown.told).toHaveLength(1);
    health.close();
    expect([known.isEnded, unknown.isEnded]).toEqual([true, true]);
  });

  it('is not told to one that has gone, while others still watch', async () => {
    const { state, health, watch } = open();
    const [gone, other] = [watch(new Watcher()), watch(new Watcher())];
    gone.emit('cancelled');
    state.isReady = false;
    await eventually(() => expect(other.told).toHaveLength(2));
    expect(gone.told).toHaveLength(1);
    other.emit('cancelled');
    // The last one has gone. One that comes now is told of changes again.
    const late = watch(new Watcher());
    state.isReady = true;
    await eventually(() => expect(late.told).toEqual(['NOT_SERVING', 'SERVING']));
    health.close();
    expect([gone.isEnded, late.isEnded]).toEqual([false, true]);
  });

  it('has 64 watchers at most', () => {
    const { health, watch } = open();
    const watchers = Array.from({ length: 64 }, () => watch(new Watcher()));
    const extra = watch(new Watcher());
    expect([extra.told, extra.errors]).toEqual([[], [Status.RESOURCE_EXHAUSTED]]);
    watchers[0]?.emit('cancelled');
    expect(watch(new Watcher()).told).toEqual(['SERVING']);
    health.close();
  });

  it('leaves places for others, however many a client wants, and takes back those of one that has gone', () => {
    const { health, watch } = open();
    const greedy = Array.from({ length: 64 }, () => watch(new Watcher('', '198.51.100.1')));
    expect(greedy.filter(({ told }) => told.length > 0)).toHaveLength(56);
    expect(watch(new Watcher()).told).toEqual(['SERVING']);
    for (const one of greedy) {
      one.getPeer = () => 'unknown';
      one.emit('cancelled');
    }
    expect(watch(new Watcher('', '198.51.100.1')).told).toEqual(['SERVING']);
    health.close();
  });
});
