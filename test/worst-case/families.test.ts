import { describe, expect, it } from 'vitest';
import { FAMILIES } from './families.js';
import { fit, list } from './family.js';
import { gateFamilies } from './gate.js';
import { sweep } from './search.js';
import { openPath } from './paths.js';
import { GATE_CATALOGUE } from '../../src/gate/codes.js';
import { GATED_METHODS } from '../../src/gate/mcp-methods.js';
import { CATALOGUE } from '../../src/verify/codes.js';

// `npm run worst-case` measures how long the worst of these take. Here they are small, and only their answers are
// checked.
const BUDGET = 4096;
const answers: ReadonlySet<string> = new Set([
  ...CATALOGUE.map(({ code }) => code),
  ...GATE_CATALOGUE.map(({ code }) => code),
  // Of the gate.
  'pass',
  'allow',
  // Of a status list.
  ...['a list', 'malformed', 'too_large', 'untrusted', 'valid', 'valid match', 'valid mismatch'],
  ...['valid invalid_body', 'INVALID_GATE_REQUEST'],
  // Over gRPC.
  'not understood',
  'not JSON',
  'not UTF-8',
]);

describe('every hostile body has a verdict, the first time and the third', () => {
  it.each(FAMILIES)('$name', async (family) => {
    const verify = await openPath(family.path);
    let small = 0;
    for (const parameters of sweep(family)) {
      const body = Buffer.from(family.make(parameters, BUDGET));
      if (body.length <= BUDGET) small++;
      const calls = [await verify(body), await verify(body), await verify(body)];
      const [first, ...later] = calls.map(({ answer }) => answer);
      expect(answers, JSON.stringify(parameters)).toContain(first);
      expect(later).toEqual([first, first]);
    }
    // Some have a smallest size, such as a list of 4,096 entries.
    expect(small).toBeGreaterThan(0);
  });
});

// A search that is refused early finds nothing.
it.each([
  ...gateFamilies
    .filter(({ name }) => name.includes('differs late'))
    .flatMap((family) =>
      (['mcp', 'http', 'a2a', 'rest'] as const).map(
        (protocol) => [family, { protocol }, 'BINDING_MISMATCH'] as const,
      ),
    ),
  ...gateFamilies
    .filter(({ name }) => name.includes('gated methods'))
    .flatMap((family) =>
      GATED_METHODS.flatMap((method) => [
        [family, { method, member: '_meta', signed: 'the same' }, 'allow'] as const,
        [family, { method, member: '_meta', signed: 'another' }, 'BINDING_MISMATCH'] as const,
      ]),
    ),
  ...gateFamilies
    .filter(({ name }) => name === 'gate: a plain HTTP body')
    .map((family) => [family, {}, 'BINDING_MISMATCH'] as const),
])('$name with %j gets as far as it should', async (family, parameters, expected) => {
  const [ordinary = {}] = sweep(family);
  const call = await openPath(family.path);
  const { answer } = await call(Buffer.from(family.make({ ...ordinary, ...parameters }, BUDGET)));
  expect(answer).toBe(expected);
});

describe('fit', () => {
  it.each([
    ['even growth', (count: number) => 'x'.repeat(count)],
    ['growth in steps', (count: number) => 'x'.repeat(7 * Math.floor(count / 7))],
    ['much overhead', (count: number) => 'x'.repeat(500 + 3 * count)],
    ['longer numbers', (count: number) => list(count, (index) => index).join()],
  ])('comes close to the budget with %s', (_, build) => {
    const { length } = fit(1000, build);
    expect(length).toBeGreaterThan(900);
    expect(length).toBeLessThanOrEqual(1000);
  });
});
