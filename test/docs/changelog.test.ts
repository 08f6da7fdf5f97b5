import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
const { version } = JSON.parse(read('package.json')) as { version: string };
const lines = read('CHANGELOG.md').split('\n');

// https://keepachangelog.com/en/1.1.0/; release.yml publishes the section of a version.
it('CHANGELOG.md has a section for what is not released, and one with a date for each release, newest first', () => {
  const headings = lines.filter((line) => line.startsWith('## '));
  expect(headings[0]).toBe('## [Unreleased]');
  for (const heading of headings.slice(1))
    expect(heading).toMatch(/^## \[\d+\.\d+\.\d+(-[\w.]+)?\] - \d{4}-\d\d-\d\d$/);
  const released = headings.slice(1).map((heading) => /\[(.*)\]/.exec(heading)?.[1] ?? '');
  // The version of package.json is the next one until it is released, and then the newest.
  if (released.includes(version)) expect(released[0]).toBe(version);
});

it('says what a version promises in one place', () => {
  const promise = 'docs/upgrading.md#what-a-version-promises';
  for (const file of ['CHANGELOG.md', 'CONTRIBUTING.md']) expect(read(file)).toContain(`(${promise})`);
  expect(read('docs/upgrading.md')).toContain('\n## What a version promises\n');
});
