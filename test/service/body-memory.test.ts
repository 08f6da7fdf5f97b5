import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BodyMemory, type BodyReservation } from '../../src/service/load/admission.js';

const LIMIT = 1024;
// Half of the memory is for reading.
const READ = LIMIT / 2;
const CLIENTS = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const;
const senderOf = (clientAddress: string) => ({ clientAddress });

it('lets one client take as much as it leaves to others', () => {
  const memory = new BodyMemory(LIMIT);
  const greedy = memory.reserve('192.0.2.1');
  expect([greedy.take(READ / 2), greedy.take(1), memory.bytes]).toEqual([true, false, READ / 2]);
  expect(memory.canRead(1, senderOf('192.0.2.1'))).toBe(false);
  // The other takes as much as it leaves free, too: half of the rest.
  expect([READ / 4, READ / 4 + 1].map((bytes) => memory.canRead(bytes, senderOf('192.0.2.2')))).toEqual([
    true,
    false,
  ]);
  const modest = memory.reserve('192.0.2.2');
  expect([modest.take(READ / 4 + 1), modest.take(READ / 4), modest.take(1)]).toEqual([false, true, false]);
  expect(memory.clients).toBe(2);
  greedy.release();
  greedy.release();
  modest.release();
  expect([memory.bytes, memory.clients]).toEqual([0, 0]);
});

it('counts all bodies of one client together, whatever notation its address has', () => {
  const memory = new BodyMemory(LIMIT);
  const held = [memory.reserve('2001:db8:0:1'), memory.reserve('2001:db8:0:1')];
  expect(held.map((one) => one.take(READ / 4))).toEqual([true, true]);
  expect(held.map((one) => one.take(1))).toEqual([false, false]);
  expect(
    ['2001:DB8:0:1::7', '2001:db8:0:2::7'].map((from) => memory.canRead(READ / 8, senderOf(from))),
  ).toEqual([false, true]);
});

it('does not ask for the address of a client while less than half is in use', () => {
  const memory = new BodyMemory(LIMIT);
  const unknown = {
    get clientAddress(): string {
      throw new Error('asked');
    },
  };
  expect(memory.canRead(READ / 2, unknown)).toBe(true);
  expect(() => memory.canRead(READ / 2 + 1, unknown)).toThrow('asked');
  expect(memory.canRead(READ + 1, unknown)).toBe(false);
});

type Step =
  | { readonly kind: 'read'; readonly client: number; readonly bytes: readonly number[] }
  | { readonly kind: 'wait' | 'charge'; readonly bytes: number }
  | { readonly kind: 'end'; readonly which: number };
const bytes = fc.integer({ min: 0, max: READ });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('read' as const),
    client: fc.nat(CLIENTS.length - 1),
    bytes: fc.array(bytes, { maxLength: 4 }),
  }),
  fc.record({ kind: fc.constantFrom('wait' as const, 'charge' as const), bytes }),
  fc.record({ kind: fc.constant('end' as const), which: fc.nat(20) }),
);

it('stays within its limits in any order of steps, and is empty when all is given back', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const memory = new BodyMemory(LIMIT);
      const ends: (() => void)[] = [];
      const held = CLIENTS.map(() => 0);
      let [waiting, charged] = [0, 0];
      const read = (client: number, pieces: readonly number[]) => {
        const reservation: BodyReservation = memory.reserve(CLIENTS[client] as string);
        let mine = 0;
        for (const piece of pieces) if (reservation.take(piece)) mine += piece;
        held[client] = (held[client] ?? 0) + mine;
        ends.push(() => {
          reservation.release();
          held[client] = (held[client] ?? 0) - mine;
        });
      };
      for (const one of steps) {
        if (one.kind === 'read') read(one.client, one.bytes);
        else if (one.kind === 'wait' && memory.take(one.bytes)) {
          waiting += one.bytes;
          ends.push(() => {
            memory.give(one.bytes);
            waiting -= one.bytes;
          });
        } else if (one.kind === 'charge' && memory.hasRoom(one.bytes)) {
          memory.charge(one.bytes);
          charged += one.bytes;
          ends.push(() => {
            memory.discharge(one.bytes);
            charged -= one.bytes;
          });
        } else if (one.kind === 'end') ends.splice(one.which % Math.max(1, ends.length), 1)[0]?.();
        const reading = held.reduce((sum, each) => sum + each, waiting);
        expect(memory.bytes).toBe(reading + charged);
        expect(reading).toBeLessThanOrEqual(READ);
        expect(memory.bytes).toBeLessThanOrEqual(LIMIT);
        for (const each of held) expect(each).toBeLessThanOrEqual(READ / 2);
        expect(memory.clients).toBe(held.filter((each) => each > 0).length);
      }
      for (const end of ends) end();
      expect([memory.bytes, memory.clients]).toEqual([0, 0]);
    }),
  );
});
