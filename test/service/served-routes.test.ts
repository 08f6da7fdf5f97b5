import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { ServedRoutes } from '../../src/service/routes/served-routes.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-routes-'));
afterAll(() => rmSync(folder, { recursive: true }));

const file = path.join(folder, 'routes.json');
const write = (tool: string, padding = '') =>
  writeFileSync(file, `{"routes":[{"method":"GET","path":"/a","tool":"${tool}"}]}${padding}`);
const toolOf = ({ current }: ServedRoutes) =>
  typeof current === 'object' && current !== null ? current.find('GET', '/a') : current;

it('are none, any, or those of a file', () => {
  write('first');
  const [none, any, table] = [undefined, 'any', file].map((setting) => new ServedRoutes(setting));
  expect([none?.current, any?.current]).toEqual([null, 'any']);
  expect([none?.reload(), any?.reload(), table?.reload()]).toEqual([null, null, { file }]);
  expect([none?.current, any?.current]).toEqual([null, 'any']);
  expect(toolOf(table as ServedRoutes)).toMatchObject({ tool: 'first' });
});

it('are read again, and stay where the file cannot be used', () => {
  write('first');
  const routes = new ServedRoutes(file);
  write('second');
  expect(toolOf(routes)).toMatchObject({ tool: 'first' });
  routes.reload();
  expect(toolOf(routes)).toMatchObject({ tool: 'second' });

  writeFileSync(file, '{');
  const refusal = (reason: string) =>
    new RegExp(
      `^GATE_ROUTES is "[^"]+routes.json": ${reason}.*\\. Expected a file of routes \\(docs/spec/gate\\.md#routes\\), or "any"\\.$`,
    );
  expect(() => routes.reload()).toThrow(refusal('it is not strict JSON: '));
  expect(toolOf(routes)).toMatchObject({ tool: 'second' });
  write('large', ' '.repeat(1024 * 1024));
  expect(() => new ServedRoutes(file)).toThrow(refusal('it is larger than 1048576 bytes'));
  writeFileSync(file, '{"routes":[]}'.padEnd(1024 * 1024));
  expect(new ServedRoutes(file).current).not.toBeNull();
  rmSync(file);
  expect(() => new ServedRoutes(file)).toThrow(refusal('ENOENT'));
});
