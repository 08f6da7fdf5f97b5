import { decodeBase64url, decodeUtf8 } from '#platform';
import { render } from 'preact';
import { App } from './app.js';
import { loadSodium } from './sodium.js';

/** What the page was opened with: the bundle in the fragment of a link, or of `drs-verify inspect`. */
function givenText(): string {
  const [, fragment] = /^#bundle=([\w-]+)$/.exec(location.hash) ?? [];
  const bytes = fragment === undefined ? null : decodeBase64url(fragment);
  const linked = bytes === null ? null : decodeUtf8(bytes);
  // A live bundle must not stay in the history of the browser.
  if (fragment !== undefined) history.replaceState(null, '', location.pathname + location.search);
  if (linked !== null) return linked;
  try {
    const given: unknown = JSON.parse(document.getElementById('given')?.textContent ?? 'null');
    if (typeof given !== 'string') return '';
    // The address gives the bundle to whoever has it: nobody should copy it from the address bar.
    history.replaceState(null, '', '/');
    return given;
  } catch {
    return '';
  }
}

const sodium = await loadSodium();
const root = document.getElementById('app');
if (root !== null) render(<App sodium={sodium} given={givenText()} />, root);
