import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { signatureShare } from '../../bench/measure/signature-share.js';

const directory = mkdtempSync(path.join(tmpdir(), 'drs-signature-share-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** A profile from 1,000 µs on, with a sample each 100 µs. */
function profile(name: string, functions: readonly string[]): void {
  const names = [...new Set(functions)];
  writeFileSync(
    path.join(directory, name),
    JSON.stringify({
      nodes: names.map((functionName, id) => ({ id, callFrame: { functionName } })),
      startTime: 1_000,
      samples: functions.map((functionName) => names.indexOf(functionName)),
      timeDeltas: functions.map(() => 100),
    }),
  );
}

it('adds up the time in libsodium over all threads, within a time', () => {
  const verify = 'exports.crypto_sign_verify_detached';
  expect(() => signatureShare(directory, 0, 1)).toThrow('no .cpuprofile');
  profile('main.cpuprofile', ['(idle)', verify, 'parse', verify, verify]);
  profile('worker.cpuprofile', [verify, verify, verify, '(idle)', '(idle)']);
  // The samples at 1,200, 1,300, 1,400 and 1,500 µs: three of the main thread and two of the worker, in 400 µs.
  expect(signatureShare(directory, 1_150, 1_550)).toBeCloseTo((3 + 2) / 4);
});
