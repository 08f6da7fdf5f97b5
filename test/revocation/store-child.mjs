// A process that opens a store, and revokes until it is killed. Says on its output, a line each, that it is open and
// which indices were acknowledged.
// node store-child.mjs <file> <first index> <step> <count>
import { writeSync } from 'node:fs';

const { openRevocation } = /** @type {typeof import('../../src/revocation/index.js')} */ (
  await import(new URL('../../dist/revocation/index.js', import.meta.url).href)
);
const [storePath = '', first, step, count] = process.argv.slice(2);
const nothing = () => undefined;

try {
  const revocation = await openRevocation({
    storePath,
    log: { info: nothing, warn: nothing, error: nothing },
  });
  writeSync(1, 'open\n');
  // Several at a time, so that groups of every size are under way when the end comes.
  let next = 0;
  const revokeOn = async () => {
    while (next < Number(count)) {
      const index = Number(first) + next++ * Number(step);
      await revocation.revoke({ target: index, reason: null, exp: null });
      writeSync(1, `${index}\n`);
    }
  };
  await Promise.all(Array.from({ length: 16 }, revokeOn));
  // Holds the store until it is killed, or its input ends.
  process.stdin.resume();
} catch (error) {
  writeSync(2, `${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
