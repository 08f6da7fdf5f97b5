import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BodyMemory } from '../../src/service/load/admission.js';
import { BodyReader, type BodyFault } from '../../src/service/http/body-reader.js';

const KIB = 1024;
// The largest amount that is held ahead of what has arrived.
const SEGMENT = 16 * KIB;
const CLIENT = '192.0.2.1';

function readerOf(memory: BodyMemory, announcedBytes = 0, maxBytes = 1024 * KIB) {
  const taken: (Buffer | BodyFault)[] = [];
  const rules = { memory, maxBytes, announcedBytes, timeoutMs: 60_000 };
  const keepOpen = () => undefined;
  const reader = new BodyReader(rules, CLIENT, performance.now(), (body) => taken.push(body), keepOpen);
  return { reader, taken };
}

describe('a body that comes in pieces', () => {
  it('is what was sent, whatever the pieces and the announcement', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.nat(50), fc.nat(40 * KIB)), { minLength: 1, maxLength: 30 }),
        fc.constantFrom('right', 'absent', 'too small'),
        (sizes, announcement) => {
          const memory = new BodyMemory(128 * 1024 * KIB);
          const sent = Buffer.from(sizes.flatMap((size, index) => Array<number>(size).fill(index)));
          const announced = { right: sent.length, absent: 0, 'too small': Math.floor(sent.length / 2) };
          const { reader, taken } = readerOf(memory, announced[announcement], 2048 * KIB);
          let at = 0;
          for (const [index, size] of sizes.entries()) {
            const piece = Buffer.from(sent.subarray(at, (at += size)));
            reader.take(piece, index === sizes.length - 1);
            // The front end uses its memory again.
            piece.fill(255);
            expect(memory.bytes).toBeGreaterThanOrEqual(at);
            expect(memory.bytes).toBeLessThan(at + SEGMENT);
          }
          expect(taken.map((body) => Buffer.isBuffer(body) && body.equals(sent))).toEqual([true]);
          reader.release();
          expect([memory.bytes, memory.clients]).toEqual([0, 0]);
        },
      ),
      { numRuns: 30 },
    );
  });

  it('holds what has arrived, not what is announced', () => {
    const memory = new BodyMemory(128 * 1024 * KIB);
    const { reader } = readerOf(memory, 1024 * KIB);
    reader.take(Buffer.alloc(1), false);
    expect(memory.bytes).toBe(SEGMENT);
    reader.take(Buffer.alloc(100 * KIB), false);
    expect(memory.bytes).toBe(100 * KIB + 1);
    reader.release();
    expect(memory.bytes).toBe(0);
  });

  it('is too large in more than 65,536 pieces, however small they are', () => {
    const memory = new BodyMemory(1024 * KIB);
    const { reader, taken } = readerOf(memory);
    const piece = Buffer.alloc(1);
    for (let at = 0; at < 65_536; at++) reader.take(piece, false);
    expect(taken).toEqual([]);
    reader.take(piece, false);
    expect(taken).toEqual(['too_large']);
    reader.release();
  });

  it.each<[BodyFault, number]>([
    ['overloaded', 300 * KIB],
    ['too_large', 3000 * KIB],
  ])('is refused where it is %s, and gives everything back', (fault, bytes) => {
    const memory = new BodyMemory(1024 * KIB);
    const { reader, taken } = readerOf(memory, 0, 2048 * KIB);
    reader.take(Buffer.alloc(100 * KIB), false);
    reader.take(Buffer.alloc(bytes), true);
    reader.take(Buffer.alloc(1), true);
    expect(taken).toEqual([fault]);
    reader.release();
    expect([memory.bytes, memory.clients]).toEqual([0, 0]);
  });
});
