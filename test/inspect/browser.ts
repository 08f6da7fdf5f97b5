import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { EXAMPLES, type ExampleName } from '../../web/inspect/example.js';

/** The page, as the build makes it. */
export const PAGE = fileURLToPath(new URL('../../dist/inspect.html', import.meta.url));

/** An inspector in a browser. */
export interface OpenPage {
  readonly page: Page;
  /** Every address that pages have asked for besides their own, and each of their errors. */
  readonly foreign: string[];
  readonly errors: string[];
  /** Opens it anew, from disk or at another address. */
  visit(url?: string): Promise<void>;
  /** Shows an example, and waits for its verdict. */
  show(name: ExampleName): Promise<void>;
  /** Pastes a text in the place of what is there. */
  paste(text: string): Promise<void>;
}

/** Opens the inspector from disk. A page costs half a second of processor time: there is one for all tests. */
export async function openInspector(browser: Browser): Promise<OpenPage> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  const foreign: string[] = [];
  const errors: string[] = [];
  let own = '';
  const note = (url: string) => {
    if (url !== own && url !== 'about:blank') foreign.push(url);
  };
  context.on('requestfinished', (request) => note(request.url()));
  context.on('requestfailed', (request) => {
    // The policy of the page stops these before they leave.
    if (request.failure()?.errorText !== 'csp') note(request.url());
  });
  page.on('websocket', (socket) => note(socket.url()));
  page.on('pageerror', ({ message }) => errors.push(message));
  const visit = async (url = pathToFileURL(PAGE).href) => {
    // Another fragment alone would open nothing.
    await page.goto('about:blank');
    own = url.replace(/#.*/s, '');
    await page.goto(url);
    await page.waitForSelector('main');
  };
  await visit();
  return {
    ...{ page, foreign, errors, visit },
    // In one step: each click from outside costs what a dozen of these do.
    show: async (name) => {
      await page.evaluate(`(async () => {
        const until = async (found) => {
          while (found() === null) await new Promise(requestAnimationFrame);
          return found();
        };
        // As a click would.
        document.activeElement?.blur();
        // Where the text is gone, its verdict may still be there.
        if (document.querySelector('.first') === null) document.querySelector('.under button').click();
        await until(() => document.querySelector('main.empty .first'));
        document.querySelectorAll('.first button')[${NAMES.indexOf(name)}].click();
        await until(() => document.querySelector('.verdict'));
      })()`);
    },
    paste: (text) => page.fill('.input textarea', text),
  };
}

const NAMES = Object.keys(EXAMPLES) as readonly ExampleName[];

/** axe-core, to be run in a page. */
export const axeSource = () =>
  readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');
