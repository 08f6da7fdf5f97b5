import { expect, it } from 'vitest';
import { PerClientSlots } from '../../src/service/load/per-client-slots.js';

it('one client gets seven eighths of the places, beside others less, and each again what is given back', () => {
  const places = new PerClientSlots(16);
  const takeAll = (client: string) => {
    let taken = 0;
    while (places.take(client)) taken++;
    return taken;
  };
  expect(takeAll('a')).toBe(14);
  expect(places.hasFor('a')).toBe(false);
  expect(takeAll('b')).toBe(2);
  expect(places.hasFor('c')).toBe(false);
  for (let left = 14; left > 0; left--) places.give('a');
  expect([places.hasFor('a'), places.hasFor('c')]).toEqual([true, true]);
  expect(takeAll('c')).toBe(13);
  expect(takeAll('a')).toBe(1);
});

it('a client that has given everything back leaves nothing behind', () => {
  const places = new PerClientSlots(1);
  for (const client of ['a', 'b', 'a']) {
    expect(places.take(client)).toBe(true);
    expect(places.take('other')).toBe(false);
    places.give(client);
  }
});
