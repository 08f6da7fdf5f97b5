import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { EXAMPLES, type ExampleName } from '../../web/inspect/example.js';

/** The page, as the build makes it. */
export const PAGE = fileURLToPath(new URL('../../dist/inspect.html', import.meta.url));

/** An inspector in a browser. */
export interface OpenPage {
  readonly page: Page;
  /** Every address that the page has asked for, and each of its errors. */
  readonly asked: string[];
  readonly errors: string[];
  /** Shows an example, and waits for its verdict. */
  show(name: ExampleName): Promise<void>;
  /** Pastes a text in the place of what is there. */
  paste(text: string): Promise<void>;
  close(): Promise<void>;
}

/** Opens the inspector from disk, or at another address. */
export async function openInspector(
  browser: Browser,
  options: BrowserContextOptions & { readonly url?: string } = {},
): Promise<OpenPage> {
  const { url = pathToFileURL(PAGE).href, ...contextOptions } = options;
  const context = await browser.newContext(contextOptions);
  const page = await context.newPage();
  const asked: string[] = [];
  const errors: string[] = [];
  context.on('requestfinished', (request) => asked.push(request.url()));
  context.on('requestfailed', (request) => {
    // The policy of the page stops these before they leave.
    if (request.failure()?.errorText !== 'csp') asked.push(request.url());
  });
  page.on('websocket', (socket) => asked.push(socket.url()));
  page.on('pageerror', ({ message }) => errors.push(message));
  await page.goto(url);
  await page.waitForSelector('main');
  return {
    ...{ page, asked, errors },
    show: async (name) => {
      if ((await page.locator('main.empty .first').count()) === 0) await page.click('text=Clear');
      await page.locator('.first button').nth(NAMES.indexOf(name)).click();
      await page.waitForSelector('.verdict');
    },
    paste: (text) => page.fill('.input textarea', text),
    close: () => context.close(),
  };
}

const NAMES = Object.keys(EXAMPLES) as readonly ExampleName[];

/** axe-core, to be run in a page. */
export const axeSource = () =>
  readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');
