import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BodyReader, type BodyFault } from '../../src/service/http/body-reader.js';

const KIB = 1024;
const PIECE = 512;

/** Memory in which there is room for so many bytes. */
class Memory {
  readonly #limit: number;
  bytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  grow(bytes: number): boolean {
    if (this.bytes + bytes > this.#limit) return false;
    this.bytes += bytes;
    return true;
  }
}

function readerOf(ticket: Memory, maxBytes = 1024 * KIB) {
  const taken: (Buffer | BodyFault)[] = [];
  const rules = { ticket, maxBytes, endsAt: performance.now() + 60_000 };
  const end = (body: Buffer | BodyFault) => {
    taken.push(body);
    reader.stop();
  };
  const reader: BodyReader = new BodyReader(rules, end, () => undefined);
  return { reader, taken };
}

describe('a body that comes in pieces', () => {
  it('is what was sent, whatever the pieces', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.nat(50), fc.nat(40 * KIB)), { minLength: 1, maxLength: 30 }),
        (sizes) => {
          const memory = new Memory(128 * 1024 * KIB);
          const sent = Buffer.from(sizes.flatMap((size, index) => Array<number>(size).fill(index)));
          const { reader, taken } = readerOf(memory, 2048 * KIB);
          let at = 0;
          for (const [index, size] of sizes.entries()) {
            const piece = Buffer.from(sent.subarray(at, (at += size)));
            reader.take(piece, index === sizes.length - 1);
            // The front end uses its memory again.
            piece.fill(255);
            expect(memory.bytes).toBe(at + (index + 1) * PIECE);
          }
          expect(taken.map((body) => Buffer.isBuffer(body) && body.equals(sent))).toEqual([true]);
          reader.stop();
        },
      ),
      { numRuns: 30 },
    );
  });

  it('is too large in more than 65,536 pieces, however small they are', () => {
    const { reader, taken } = readerOf(new Memory(Infinity));
    const piece = Buffer.alloc(1);
    for (let at = 0; at < 65_536; at++) reader.take(piece, false);
    expect(taken).toEqual([]);
    reader.take(piece, false);
    expect(taken).toEqual(['too_large']);
  });
});

describe('a body that comes slowly', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
  afterEach(() => void vi.useRealTimers());

  /** A reader for a request that has so much time left. */
  function slowReaderOf(leftMs: number) {
    const taken: (Buffer | BodyFault)[] = [];
    const ticket = new Memory(1024 * KIB);
    const rules = { ticket, maxBytes: 100, endsAt: performance.now() + leftMs };
    const keepOpen = vi.fn<() => void>();
    const reader = new BodyReader(rules, (body) => taken.push(body), keepOpen);
    return { reader, taken, keepOpen };
  }

  it('keeps its connection open every four seconds, until its time is over', () => {
    const { reader, taken, keepOpen } = slowReaderOf(9000);
    vi.advanceTimersByTime(3999);
    expect(keepOpen).toHaveBeenCalledTimes(0);
    vi.advanceTimersByTime(1);
    expect(keepOpen).toHaveBeenCalledTimes(1);
    reader.take(Buffer.alloc(1), false);
    vi.advanceTimersByTime(4999);
    expect([taken, keepOpen.mock.calls.length]).toEqual([[], 2]);
    vi.advanceTimersByTime(1);
    expect([taken, vi.getTimerCount()]).toEqual([['timeout'], 0]);
  });

  it('is refused at once where no time is left', () => {
    const { taken, keepOpen } = slowReaderOf(0);
    expect([taken, keepOpen.mock.calls.length, vi.getTimerCount()]).toEqual([['timeout'], 0, 0]);
  });

  it('is not waited for any more once it is stopped', () => {
    const { reader, taken, keepOpen } = slowReaderOf(10_000);
    reader.stop();
    vi.advanceTimersByTime(20_000);
    expect([taken, keepOpen.mock.calls.length, vi.getTimerCount()]).toEqual([[], 0, 0]);
  });
});
