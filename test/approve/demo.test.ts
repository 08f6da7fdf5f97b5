import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { needs } from '../support/programs.js';

const DEMO = fileURLToPath(new URL('../../scripts/demo-approve.mjs', import.meta.url));

it('`npm run demo:approve` tells its story to the end', needs('chromium'), async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [DEMO], { timeout: 150_000 });
  expect(stdout).toMatch(/\n5\. .*\n.*speak MCP 2026-07-28\n(?:.*\n)+.*done \n\n6\. /);
  expect(stdout).toMatch(
    /\n {3}approved {2}by the passkey of Alice: .*\n {3}approved {2}by the passkey of Bob: .*\n {3}holds {2}lines 0 to \d+ of /,
  );
  expect(stdout).toMatch(/All as it should be\.\n$/);
});
