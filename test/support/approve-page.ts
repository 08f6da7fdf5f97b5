import { expect, onTestFinished, vi } from 'vitest';
import { Questions } from '../../src/approval/questions.js';
import { eventually } from './eventually.js';
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

/** Watches the questions of one instance. @returns waits until a call is held: it looks whether its question is answered */
export function watchHeld(): () => Promise<void> {
  const look = vi.spyOn(Questions.prototype, 'get');
  onTestFinished(() => look.mockRestore());
  return () => eventually(() => expect(look).toHaveBeenCalled());
}
