import { expect, it } from 'vitest';
import { Admission } from '../../src/server/admission.js';
import { QueueWait } from '../../src/server/queue-wait.js';

function clock() {
  const signatures = { waitMs: 0 };
  const turns: (() => void)[] = [];
  const time = { now: 1000 };
  const queue = new QueueWait(
    signatures,
    () => time.now,
    (turn) => turns.push(turn),
  );
  const endTurn = () => turns.splice(0).forEach((turn) => turn());
  return { queue, signatures, time, endTurn };
}

const limits = { maxPending: 4, maxBodyMemory: 1_000_000, queueTargetMs: 20 };

it('a request has waited since its turn of the event loop began, and perhaps for the one before', () => {
  const { queue, time, endTurn } = clock();
  expect(queue.ms).toBe(0);
  time.now += 15;
  expect(queue.ms).toBe(30);
  endTurn();
  time.now += 100;
  expect(queue.ms).toBe(0);
});

it('a request waits for what waits for a thread, too', () => {
  const { queue, signatures, time } = clock();
  signatures.waitMs = 10;
  expect(queue.ms).toBe(10);
  time.now += 5;
  expect(queue.ms).toBe(20);
  signatures.waitMs = 0;
  expect(queue.ms).toBe(10);
});

it('what would wait for longer than the target is not let in', () => {
  const { queue, signatures, time, endTurn } = clock();
  const admission = new Admission(limits, queue);
  const ticket = admission.enter(100);
  expect(ticket).not.toBeNull();
  signatures.waitMs = 20;
  expect(admission.hasRoomFor(20_000)).toBe(true);
  time.now += 1;
  // A small body is there already; a large one is not worth reading.
  expect([admission.hasRoomFor(20_000), admission.enter(100)]).toEqual([false, null]);
  signatures.waitMs = 0;
  endTurn();
  expect(admission.hasRoomFor(20_000)).toBe(true);
  ticket?.release();
  expect([admission.pending, admission.bodyBytes]).toEqual([0, 0]);
});

it('what waits for the status list leaves its place to others, up to half of all', () => {
  const { queue } = clock();
  const admission = new Admission(limits, queue);
  const tickets = Array.from({ length: 4 }, () => admission.enter(100));
  expect(admission.enter(100)).toBeNull();
  expect(tickets.map((ticket) => ticket?.park())).toEqual([true, true, false, false]);
  expect(tickets[0]?.park()).toBe(false);
  const others = [admission.enter(100), admission.enter(100)];
  expect([...others, admission.enter(100)].map((ticket) => ticket !== null)).toEqual([true, true, false]);
  expect(admission.pending).toBe(6);
  for (const ticket of [...tickets, ...others, ...tickets]) ticket?.release();
  expect([admission.pending, admission.bodyBytes]).toEqual([0, 0]);
  expect(admission.enter(100)).not.toBeNull();
});

it('memory is given back on every path, and never twice', () => {
  const { queue } = clock();
  const admission = new Admission({ ...limits, maxBodyMemory: 64_000 }, queue);
  const [first, second] = [admission.enter(3_000), admission.enter(3_000)];
  expect(admission.bodyBytes).toBeGreaterThan(0);
  expect(admission.enter(3_000)).toBeNull();
  expect([first?.park(), second?.park()]).toEqual([true, false]);
  first?.release();
  first?.release();
  expect(admission.enter(1_000)).not.toBeNull();
  second?.release();
  expect(admission.pending).toBe(1);
});
