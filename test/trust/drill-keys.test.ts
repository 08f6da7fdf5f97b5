import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

// Each call is judged: by the key that is published, and never by one that is not.
it('a key is changed under load without a wrong verdict', async ({ signal }) => {
  const drill = ['scripts/drill-keys.mjs', '1'];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, drill, { signal });
  expect(stderr).toBe('');
  const [published, withdrawn, calls] = stdout.split('\n');
  expect(published).toMatch(/^second key published; accepted after {2}\d+\.\d s$/);
  expect(withdrawn).toMatch(/^first key withdrawn; refused after {4}\d+\.\d s$/);
  expect(calls).toMatch(/^calls meanwhile: \d{2,}, with a wrong verdict: 0$/);
});
