import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FAULTS } from './all.js';
import { runFault } from './run-fault.js';
import { Traffic } from './traffic.js';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';

it('docs/faults.md says what happens at each fault', () => {
  const text = readFileSync(new URL('../../docs/faults.md', import.meta.url), 'utf8');
  for (const { name, row = name, stated } of FAULTS) expect(text).toContain(`\n| ${row} | ${stated} |\n`);
});

// The others take longer: `npm run faults`.
describe('under a fault nothing wrong is valid, and no acknowledged revocation is lost', () => {
  const quick = FAULTS.filter(({ isQuick = false, missing }) => isQuick && (missing?.() ?? null) === null);
  it.each(quick)('$name', async (fault) => {
    const { problems, answers } = await runFault(fault, { rate: 40, lastMs: 500 });
    expect(problems).toEqual([]);
    expect(answers['valid']).toBeGreaterThan(0);
  });
});

it('the checker notices a service that says yes to everything', async () => {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.end('{"valid":true}'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const traffic = new Traffic({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    rate: 1,
    isReplayRefused: true,
  });
  const [delegation] = traffic.delegations;
  await traffic.send('good');
  if (delegation !== undefined) delegation.revokedAt = 0;
  for (const kind of ['forged', 'policy', 'expired', 'revoked', 'replayed'] as const)
    await traffic.send(kind);
  await traffic.stop();
  server.close();
  expect(traffic.violations.map(({ kind }) => kind)).toEqual([
    'forged',
    'policy',
    'expired',
    'revoked',
    'replayed',
  ]);
});
