import { existsSync, mkdirSync, writeFileSync } from 'node:fs';

const BUILT = new URL('../../dist/approve/', import.meta.url);
const INDEX = new URL('index.html', BUILT);

/** Puts something in the place of the page of approvals, where that is not built. */
export function requireApprovePage(): void {
  if (existsSync(INDEX)) return;
  mkdirSync(new URL('assets/', BUILT), { recursive: true });
  writeFileSync(new URL('assets/page.js', BUILT), 'export {};');
  // Last: other test files look for it.
  writeFileSync(INDEX, '<!doctype html><title>Approve</title>');
}
