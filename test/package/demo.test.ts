import { afterAll, beforeAll, expect, it } from 'vitest';
import { Project } from '../support/project.js';

let project: Project;
beforeAll(() => {
  project = Project.create();
});
afterAll(() => project.remove());

it('npx drs-verify demo works where only the package is installed', async () => {
  const { code, out, err } = await project.run('npx', ['drs-verify', 'demo']);
  expect(err).toBe('');
  expect(out).toMatch(/^This demo has started a service[^]*\nAll verdicts were as expected\.\n$/);
  expect(code).toBe(0);
});
