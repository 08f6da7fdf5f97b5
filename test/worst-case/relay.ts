import { family, fit, list, type Choice, type Family } from './family.js';

/** So many members are looked at one by one; more are refused before. */
const MAX_MEMBERS = 12_000;
const CHOICES = {
  // The first that a double holds, one that it does not, and one that is written in another way.
  id: ['1', '12345678901234567890', '1e-3'],
  name: ['distinct', 'id', 'escaped', 'long'],
  value: ['1', '""', '9007199254740993', '{"id":1}'],
  twice: ['never', 'last'],
  count: ['most', 'all'],
} as const;

/** A message with as many members as there may be, in which a name may come twice. */
const text = (
  method: string,
  { id, name, value, twice, count: how }: { readonly [N in keyof typeof CHOICES]: Choice },
  budget: number,
) =>
  fit(budget, (size) => {
    const most = how === 'most' ? MAX_MEMBERS : Infinity;
    const count = Math.min(most, Math.max(1, Math.floor(size / 12)));
    const pad = 'x'.repeat(Math.max(0, Math.floor(size / count) - 12));
    const nameOf = (at: number) =>
      ({ distinct: `${at}`, id: 'id', escaped: `\\u0061${at}`, long: `${at}${pad}` })[String(name)] ?? '';
    const members = list(count, (at) => `"${nameOf(at)}":${value}`).join();
    const more = twice === 'last' ? ',"z":1,"z":2' : '';
    return `{"jsonrpc":"2.0","method":"${method}","params":{"name":"search","arguments":{${members}}${more}},"id":${id}}`;
  });

/** Lines for `guard` and `sign`, which read them before and after the gate. */
export const relayFamilies: readonly Family[] = [
  family(
    'relay: a message that passes a guard',
    CHOICES,
    (one, budget) => text('ping', one, budget),
    'guard',
  ),
  family('relay: a message that sign passes', CHOICES, (one, budget) => text('ping', one, budget), 'sign'),
  family('relay: a call that sign signs', CHOICES, (one, budget) => text('tools/call', one, budget), 'sign'),
];
