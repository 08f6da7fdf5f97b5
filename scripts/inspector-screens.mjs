// Takes the pictures of docs/inspector.md: `npm run setup && node scripts/inspector-screens.mjs`. Needs Chromium.
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

/** Bytes. */
const MAX_PICTURE = 60_000;

const root = new URL('../', import.meta.url);
const page = pathToFileURL(fileURLToPath(new URL('dist/inspect.html', root))).href;

/**
 * @typedef {{ name: string, example: string, width?: number, height?: number, dark?: true, plain?: true, paste?: string }} Screen
 */

/** @type {Screen[]} */
const SCREENS = [
  { name: 'empty', example: '', height: 660 },
  { name: 'valid', example: 'Valid', height: 1180 },
  { name: 'a-structure', example: 'A:', height: 1000 },
  { name: 'b-linkage', example: 'B:', height: 1000, dark: true },
  { name: 'c-signatures', example: 'C:', width: 390, height: 1500 },
  { name: 'd-policy', example: 'D:', height: 1180 },
  { name: 'e-time', example: 'E:', height: 1180 },
  { name: 'f-revocation', example: 'F:', width: 390, height: 1500, dark: true },
  { name: 'sixteen', example: 'Sixteen', height: 1180, dark: true },
  { name: 'plain', example: 'Valid', width: 390, height: 1500, plain: true },
  { name: 'garbage', example: '', width: 390, height: 560, paste: 'eyJ… what is this?' },
];

const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
});
const folder = fileURLToPath(new URL('docs/inspector/', root));
mkdirSync(folder, { recursive: true });

/** @param {Screen} screen @returns a PNG */
async function take({ example, width = 1280, height = 900, dark, plain, paste }) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  });
  const open = await context.newPage();
  await open.goto(page);
  // Not `:has-text`, which takes "D:" for a part of "Valid: …".
  if (example !== '') await open.click(`.first button:text-matches("^${example}")`);
  if (paste !== undefined) await open.fill('.input textarea', paste);
  if (example !== '') await open.waitForSelector('.verdict');
  if (plain) await open.click('text=In plain words');
  await open.mouse.click(1, 1);
  const png = await open.screenshot();
  await context.close();
  return png;
}

// Chromium writes WebP, which is a quarter of the same picture as PNG.
const blank = await browser.newPage();
/** @param {Buffer} png @param {number} quality */
const toWebp = async (png, quality) => {
  const bytes = /** @type {number[]} */ (
    await blank.evaluate(
      `createImageBitmap(new Blob([Uint8Array.from(atob('${png.toString('base64')}'), (at) => at.charCodeAt(0))])).then((image) => {
      const canvas = new OffscreenCanvas(image.width, image.height);
      canvas.getContext('2d').drawImage(image, 0, 0);
      return canvas.convertToBlob({ type: 'image/webp', quality: ${quality} });
    }).then((blob) => blob.arrayBuffer()).then((bytes) => Array.from(new Uint8Array(bytes)))`,
    )
  );
  return Buffer.from(bytes);
};

for (const screen of SCREENS) {
  const png = await take(screen);
  let webp = await toWebp(png, 0.8);
  for (let quality = 0.7; webp.length > MAX_PICTURE; quality -= 0.1) webp = await toWebp(png, quality);
  writeFileSync(`${folder}${screen.name}.webp`, webp);
  console.log(`${screen.name}.webp: ${Math.ceil(webp.length / 1000)} kB`);
}
await browser.close();
