import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { expect, it } from 'vitest';

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as Record<
  'dependencies' | 'optionalDependencies' | 'devDependencies',
  Record<string, string>
>;

it('pins every package exactly', () => {
  for (const [name, version] of Object.entries({
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
    ...manifest.devDependencies,
  })) {
    expect([name, version]).toEqual([
      name,
      expect.stringMatching(/^(npm:[\w@/.-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/),
    ]);
  }
});

const isRecorded =
  process.platform === 'linux' && process.arch === 'x64' && process.versions.modules === '115';
it.skipIf(!isRecorded)('loads the uWebSockets.js binary that docs/supply-chain.md records', () => {
  const folder = path.dirname(createRequire(import.meta.url).resolve('uWebSockets.js'));
  const digest = createHash('sha256')
    .update(readFileSync(path.join(folder, 'uws_linux_x64_115.node')))
    .digest('hex');
  const recorded = readFileSync(new URL('../docs/supply-chain.md', import.meta.url), 'utf8');
  expect(recorded).toContain(digest);
});
