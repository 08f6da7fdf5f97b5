import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/**
 * The page of the inspector. `npm run build:web` makes it.
 *
 * @param given what it opens with: a bundle, or anything that it recognises
 */
export function inspectorPage(given: string | null = null): string {
  const page = readFileSync(createRequire(import.meta.url).resolve('#inspector'), 'utf8');
  // JSON has no `<` outside of strings, and there this is the same character: nothing ends the element.
  const data = JSON.stringify(given).replaceAll('<', '\\u003c');
  return page.replace(
    /(<script type="application\/json" id="given">)[^<]*/,
    (_, start: string) => start + data,
  );
}

/** What a server says of the page besides what the page says of itself: nobody puts it into a frame, or keeps it. */
export const INSPECTOR_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': "frame-ancestors 'none'",
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
} as const;
