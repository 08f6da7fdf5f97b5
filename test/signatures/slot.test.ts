import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BATCH_CHECKS, bytesFor, CheckState, SlotReader, SlotWriter } from '../../src/signatures/slot.js';
import type { SignatureCheck } from '../../src/protocol/jwt.js';

/** A check whose every field contains its number. */
function numbered(number: number, messageLength: number): SignatureCheck {
  return {
    jwt: String.fromCharCode(65 + number).repeat(messageLength),
    signature: Buffer.alloc(64, number),
    publicKey: Buffer.alloc(32, number),
    signingInputLength: messageLength,
  };
}

describe('a slot', () => {
  it('has each check verified once, by whichever side takes it first, and tells who and how', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ length: fc.nat(300), isGood: fc.boolean() }), {
          minLength: 1,
          maxLength: BATCH_CHECKS,
        }),
        // How many the main thread takes back before the worker begins, and then during each of its verifications.
        fc.array(fc.nat(3), { minLength: BATCH_CHECKS + 1, maxLength: BATCH_CHECKS + 1 }),
        (checks, takings) => {
          const slot = Buffer.from(
            new SharedArrayBuffer(bytesFor(checks.map(({ length }, at) => numbered(at, length)))),
          );
          const writer = new SlotWriter(slot);
          writer.clear();
          for (const [at, { length }] of checks.entries())
            expect(writer.write(numbered(at, length))).toBe(true);

          const takenBack: number[] = [];
          let step = 0;
          const takeBack = () => {
            for (let left = takings[step++] ?? 0; left > 0; left--) {
              const check = writer.takeBack();
              if (check >= 0) takenBack.push(check);
            }
          };
          takeBack();
          const reader = new SlotReader(Buffer.alloc(slot.length));
          reader.fill(slot);
          const verified: number[] = [];
          reader.verify(writer.checks, slot, (signature, message, publicKey) => {
            const at = signature[0] as number;
            expect([signature, publicKey]).toEqual([Buffer.alloc(64, at), Buffer.alloc(32, at)]);
            expect(message.toString('latin1')).toBe(numbered(at, checks[at]?.length ?? -1).jwt);
            verified.push(at);
            takeBack();
            return checks[at]?.isGood === true;
          });

          expect([...verified, ...takenBack].sort((a, b) => a - b)).toEqual([...checks.keys()]);
          expect(writer.takeBack()).toBe(-1);
          for (const [at, { isGood }] of checks.entries()) {
            expect(writer.isTakenBack(at)).toBe(takenBack.includes(at));
            expect(writer.isVerified(at)).toBe(verified.includes(at) && isGood);
          }
        },
      ),
    );
  });

  it('forgets the batch before', () => {
    const writer = new SlotWriter(Buffer.alloc(bytesFor([numbered(0, 10), numbered(1, 10)])));
    writer.clear();
    writer.write(numbered(0, 10));
    expect([writer.takeBack(), writer.takeBack()]).toEqual([0, -1]);
    writer.clear();
    writer.write(numbered(0, 10));
    writer.write(numbered(1, 10));
    expect(writer.isTakenBack(0)).toBe(false);
    expect([writer.takeBack(), writer.takeBack(), writer.takeBack()]).toEqual([0, 1, -1]);
  });

  it('refuses what does not fit, and keeps the batch as it was', () => {
    const full = Array.from({ length: BATCH_CHECKS }, () => numbered(1, 1));
    const writer = new SlotWriter(Buffer.alloc(bytesFor(full) + 10));
    writer.clear();
    for (const check of full) expect(writer.write(check)).toBe(true);
    expect(writer.write(numbered(2, 1))).toBe(false);
    expect([writer.checks, writer.bytes]).toEqual([BATCH_CHECKS, bytesFor(full)]);

    const short = new SlotWriter(Buffer.alloc(bytesFor([numbered(1, 10), numbered(2, 5)])));
    short.clear();
    expect([short.write(numbered(1, 10)), short.write(numbered(2, 6))]).toEqual([true, false]);
    expect([short.checks, short.bytes]).toEqual([1, bytesFor([numbered(1, 10)])]);
    expect(short.write(numbered(2, 5))).toBe(true);
  });

  it.each([0, 63, 65, 128])(
    'holds zeros for a signature of %i bytes, whatever was there before',
    (length) => {
      const around = [numbered(1, 3), numbered(2, 3), numbered(3, 3)];
      const memory = Buffer.alloc(bytesFor(around));
      const writer = new SlotWriter(memory);
      for (const signature of [Buffer.alloc(64, 9), Buffer.alloc(length, 9)]) {
        writer.clear();
        for (const [at, check] of around.entries()) writer.write(at === 1 ? { ...check, signature } : check);
      }
      const signatures: Buffer[] = [];
      new SlotReader(memory).verify(3, Buffer.alloc(3), (signature) => {
        signatures.push(signature);
        return false;
      });
      expect(signatures).toEqual([Buffer.alloc(64, 1), Buffer.alloc(64), Buffer.alloc(64, 3)]);
    },
  );

  it('takes a state for nothing but what it says', () => {
    expect(new Set(Object.values(CheckState)).size).toBe(5);
    const writer = new SlotWriter(Buffer.alloc(bytesFor([numbered(0, 10)])));
    writer.clear();
    writer.write(numbered(0, 10));
    // Neither one that nobody has looked at nor one that a worker died with counts as verified.
    expect(writer.isVerified(0)).toBe(false);
    const reader = new SlotReader(Buffer.alloc(bytesFor([numbered(0, 10)])));
    const states = Buffer.alloc(1);
    expect(() =>
      reader.verify(1, states, () => {
        throw new Error('the worker dies');
      }),
    ).toThrow('the worker dies');
    expect(states[0]).toBe(CheckState.taken);
  });
});
