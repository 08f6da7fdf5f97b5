import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What an operator reads or runs. The examples are left out: `npm start` there starts a tool server of the example. */
const PLACES = ['docs', 'deploy', 'src'];

// SIGTERM to `npm start` ends npm and leaves the service running.
it('names `npm start` for development only', () => {
  const below = PLACES.flatMap((place) =>
    readdirSync(path.join(ROOT, place), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)))
      // The API reference is made from src/.
      .filter((file) => !file.startsWith(path.join('docs', 'api'))),
  );
  const beside = readdirSync(ROOT).filter((name) => name.endsWith('.md'));
  const named = [...below, ...beside].flatMap((file) =>
    readFileSync(path.join(ROOT, file), 'utf8')
      .split('\n')
      .filter((line) => /npm (run )?start\b/.test(line))
      .map((line) => `${file}: ${line.trim()}`),
  );
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((line) => !line.includes('development'))).toEqual([]);
});
