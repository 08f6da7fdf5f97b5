import { chromium, type Browser } from 'playwright-core';
import { PROGRAMS } from './needed-programs.mjs';

const ARGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  // Containers have little shared memory, and a browser crashes without enough of it.
  ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
];

/** Only a browser that hangs takes longer than this; a busy machine may need a minute to start one. In ms. */
export const PATIENCE = 150_000;

/** Starts a browser without a window. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: PROGRAMS.chromium.file, args: ARGS, timeout: PATIENCE });
}
