import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Ajv } from 'ajv';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../../bench/run/paths.js';
import { renderReport } from '../../bench/report/render.js';
import { renderTable } from '../../bench/report/table.js';
import { figureOf, type Results } from '../../bench/run/results.js';
import { sampleResults } from './sample-results.js';

const CHROMIUM = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';
const ARGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  // Shared memory is small in containers, where a browser ends for want of it.
  ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
];

/** Only a browser that hangs takes so long: a busy machine may take a minute to start one. In ms. */
const PATIENCE = 150_000;

const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-report-'));
const results = sampleResults(directory);
const report = path.join(directory, 'report.html');
writeFileSync(report, await renderReport(results));
afterAll(() => rmSync(directory, { recursive: true }));

describe('results.json', () => {
  const schema = JSON.parse(
    readFileSync(path.join(ROOT, 'bench/schema/results.schema.json'), 'utf8'),
  ) as object;
  const validate = new Ajv({ allowUnionTypes: true, strictTuples: false }).compile(schema);

  it('is as its schema says', () => {
    expect(validate(results) ? [] : validate.errors).toEqual([]);
  });

  it('may not lack or add a member', () => {
    const lacking = Object.fromEntries(Object.entries(results).filter(([name]) => name !== 'notes'));
    expect(validate(lacking)).toBe(false);
    expect(validate({ ...results, more: 1 })).toBe(false);
  });

  it('comes with HdrHistogram logs', () => {
    for (const { file, count } of results.distributions) {
      expect(readFileSync(path.join(directory, file), 'utf8')).toContain(
        `Total count    = ${String(count).padStart(12)}`,
      );
    }
  });
});

it('prints a table with every bar that was measured', () => {
  const text = renderTable(results);
  expect(text).toContain('warm CPU, depth 4, 128 connections');
  expect(text).toContain('RSS after a million verdicts');
  expect(text).toContain('skipped: peers/biscuit');
  expect(text).toContain('while each figure was taken: ▁▅');
  expect(text).toContain('NOISY: others had more than a tenth of the cores in 1 of 2');
});

// Where there is no browser this shows as skipped.
describe.skipIf(!existsSync(CHROMIUM))('report.html in Chromium', () => {
  let browser: Browser;
  const launch = () => chromium.launch({ executablePath: CHROMIUM, args: ARGS, timeout: PATIENCE });
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  // What pages say on the console, what fails in them, what they ask the network for.
  const complaints: string[] = [];
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

  async function open(file: string, width = 1200, colorScheme: 'light' | 'dark' = 'light'): Promise<Page> {
    // A browser that the system ended is started again: what is tested is the page.
    if (!browser.isConnected()) browser = await launch();
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    page.setDefaultTimeout(PATIENCE);
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
    });
    await page.goto(pathToFileURL(file).href);
    return page;
  }

  // What runs in the page is text here, because these types know no browser.

  /** How many pixels of each chart are not blank. */
  const inkOf = (page: Page) =>
    page.evaluate<number[]>(`[...document.querySelectorAll('canvas')].map((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((value, at) => at % 4 === 3 && value > 0).length;
    })`);

  it('draws every chart and section', async () => {
    const page = await open(report);
    const ink = await inkOf(page);
    expect(ink).toHaveLength(5);
    for (const pixels of ink) expect(pixels).toBeGreaterThan(1000);
    const sections = await page.evaluate<string[]>(
      `[...document.querySelectorAll('main > section')].map(({ id }) => id)`,
    );
    expect(sections).toEqual([
      ...[
        'bars',
        'depth',
        'latency',
        'open-loop-4',
        'stages',
        'peers',
        'memory',
        'skipped',
        'glossary',
        'reproduce',
      ],
    ]);
    await page.close();
  });

  it('shows the numbers of results.json', async () => {
    const page = await open(report);
    const shown = await page.evaluate<{ id: string; as: string; text: string }[]>(
      `[...document.querySelectorAll('[data-figure]')].map((cell) => ({
        id: cell.dataset.figure, as: cell.dataset.as, text: cell.textContent,
      }))`,
    );
    expect(shown.length).toBeGreaterThan(150);
    for (const { id, as, text } of shown) {
      const figure = figureOf(results, id);
      expect(figure, id).toBeDefined();
      const expected = as === 'floors' ? figure?.floors : figure?.median;
      const number =
        Number(text.replace(/[^\d.-]/g, '')) * (text.endsWith(' MB') ? 1e6 : text.endsWith(' kB') ? 1e3 : 1);
      // Three significant digits are shown.
      expect(number / (expected ?? Number.NaN), `${id} reads ${text}`).toBeCloseTo(1, 1.9);
    }
    const embedded = await page.locator('#results').textContent();
    expect(JSON.parse(embedded ?? '')).toMatchObject(JSON.parse(JSON.stringify(results)) as Results);
    await page.close();
  });

  it('shows values at the pointer', async () => {
    const page = await open(report);
    await page.locator('#depth .u-over').first().hover();
    await expect
      .poll(() => page.locator('#depth .u-legend').first().textContent())
      .toMatch(/warm\d[\d.,]* µs/);
    await page.close();
  });

  it('fits a phone', async () => {
    const page = await open(report, 360);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    for (const pixels of await inkOf(page)) expect(pixels).toBeGreaterThan(1000);
    await page.close();
  });

  it('is dark where the reader wants it, and light on paper', async () => {
    const page = await open(report, 1200, 'dark');
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    // In one step: the charts are drawn anew, on other canvases, when the medium changes.
    const axis = () => page.evaluate<string>('document.querySelector("canvas").toDataURL()');
    expect(await background()).toBe('rgb(20, 23, 27)');
    const dark = await axis();
    await page.emulateMedia({ media: 'print' });
    expect(await background()).toBe('rgb(255, 255, 255)');
    await expect.poll(axis).not.toBe(dark);
    await page.close();
  });

  it('says when a run is void', async () => {
    const file = path.join(directory, 'void.html');
    const wrongVerdicts = [{ where: 'closed-loop/wrk/warm/d4/c32', count: 3, first: '200 {"valid":false}' }];
    writeFileSync(file, await renderReport({ ...results, isVoid: true, wrongVerdicts }));
    const page = await open(file);
    expect(await page.locator('.void').textContent()).toContain(
      '3 wrong answers in closed-loop/wrk/warm/d4/c32',
    );
    await page.close();
  });
});
