// A process that opens a store, and revokes until it is killed. Says on its output, a line each, that it is open and
// what was acknowledged: numbers, each as an index, or in turn as an index, a receipt and a key.
// node store-child.mjs <file> <first number> <step> <count> [mixed]
import { writeSync } from 'node:fs';

const { openRevocation } = /** @type {typeof import('../../src/revocation/index.js')} */ (
  await import(new URL('../../dist/revocation/index.js', import.meta.url).href)
);
const [storePath = '', first, step, count, mixed] = process.argv.slice(2);
const nothing = () => undefined;

try {
  const revocation = await openRevocation({
    storePath,
    maxEntries: 10_000_000,
    log: { info: nothing, warn: nothing, error: nothing },
  });
  writeSync(1, 'open\n');
  // Several at a time, so that groups of every size are under way when the end comes.
  let next = 0;
  const revokeOn = async () => {
    while (next < Number(count)) {
      const number = Number(first) + next++ * Number(step);
      const kinds = [number, `sha256:${String(number).padStart(64, '0')}`, `did:key:z${number}`];
      const target = kinds[mixed === undefined ? 0 : next % 3] ?? number;
      await revocation.revoke({ target, reason: null, exp: null });
      writeSync(1, `${target}\n`);
    }
  };
  await Promise.all(Array.from({ length: 16 }, revokeOn));
  // Holds the store until it is killed, or its input ends.
  process.stdin.resume();
} catch (error) {
  writeSync(2, `${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
