import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readRoutes } from '../../src/service/routes/served-routes.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-routes-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('are none, any, or those of a file that is not too large', () => {
  expect([readRoutes(undefined), readRoutes('any')]).toEqual([null, 'any']);
  const file = path.join(folder, 'routes.json');
  const refusal = (reason: string) =>
    new RegExp(
      `^GATE_ROUTES is "[^"]+routes.json": ${reason}.*\\. Expected a file of routes \\(docs/spec/gate\\.md#routes\\), or "any"\\.$`,
    );
  expect(() => readRoutes(file)).toThrow(refusal('ENOENT'));
  writeFileSync(file, '{');
  expect(() => readRoutes(file)).toThrow(refusal('it is not strict JSON: '));
  writeFileSync(file, '{"routes":[]}'.padEnd(1024 * 1024));
  expect(readRoutes(file)).not.toBeNull();
  writeFileSync(file, '{"routes":[]}'.padEnd(1024 * 1024 + 1));
  expect(() => readRoutes(file)).toThrow(refusal('it is larger than 1048576 bytes'));
});
