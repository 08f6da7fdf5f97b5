import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { renderReport } from '../../bench/report/report.js';
import { renderTable } from '../../bench/report/table.js';
import { finderOf } from '../../bench/run/results.js';
import { sampleResults } from './sample-results.js';

const CHROMIUM = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';
const ARGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  // Containers have little shared memory, and a browser crashes without enough of it.
  ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
];

/** Only a browser that hangs takes longer than this; a busy machine may need a minute to start one. In ms. */
const PATIENCE = 150_000;

const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-report-'));
const results = sampleResults();
const report = path.join(directory, 'report.html');
writeFileSync(report, await renderReport(results));
afterAll(() => rmSync(directory, { recursive: true }));

it('prints a table with every bar that was measured, unless a single run can have no verdict', () => {
  const text = renderTable(results);
  expect(text).toContain('warm CPU, depth 4, 128 connections');
  expect(text).toContain('skipped: peers/biscuit');
  expect(text).toContain('while each figure was taken: ▁▅');
  expect(text).toContain('NOISY: others had more than a tenth of the cores in 1 of 2');
  expect(renderTable({ ...results, mode: 'quick' })).not.toContain('warm CPU, depth 4, 128 connections');
});

// Where there is no browser this shows as skipped.
describe.skipIf(!existsSync(CHROMIUM))('report.html in Chromium', () => {
  let browser: Browser;
  /** The report, for all tests. */
  let page: Page;
  const launch = () => chromium.launch({ executablePath: CHROMIUM, args: ARGS, timeout: PATIENCE });
  beforeAll(async () => {
    browser = await launch();
    page = await open(report);
  });
  afterAll(() => browser.close());

  // Console output, errors and network requests of the pages.
  const complaints: string[] = [];
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

  async function open(file: string): Promise<Page> {
    const opened = await browser.newPage();
    opened.setDefaultTimeout(PATIENCE);
    opened.on('console', (message) => complaints.push(message.text()));
    opened.on('pageerror', (error) => complaints.push(error.message));
    opened.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
    });
    await opened.goto(pathToFileURL(file).href);
    return opened;
  }

  beforeEach(async () => {
    // If the system has killed the browser, it is started again: the page is tested, not the browser.
    if (!browser.isConnected()) {
      browser = await launch();
      page = await open(report);
    }
    await show(1200);
  });
  const show = (width: number) => page.setViewportSize({ width, height: 900 });

  // Code for the page is text here, because the types of this project have no browser.

  /** The charts that the page shows, with their widths in px. */
  const chartsOf = (shown: Page) =>
    shown.evaluate<
      { name: string; width: number }[]
    >(`[...document.querySelectorAll('[data-chart]')].map((chart) => ({
      name: chart.dataset.chart,
      width: Math.max(...[...chart.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect().width)),
    }))`);
  const sectionsOf = (shown: Page) =>
    shown.evaluate<string[]>(`[...document.querySelectorAll('section')].map(({ id }) => id)`);

  it('answers in the order in which one asks, the bars last', async () => {
    expect(await sectionsOf(page)).toEqual(['cost', 'depth', 'parts', 'knee', 'peers', 'skipped', 'bars']);
    const charts = await chartsOf(page);
    expect(charts.map(({ name }) => name)).toEqual(['cost', 'latency', 'parts', 'knee', 'overload', 'peers']);
    // As wide as the text.
    for (const { width } of charts) expect(width).toBeCloseTo(736, -1);
  });

  it('shows the numbers of results.json', async () => {
    const shown = await page.evaluate<{ id: string; as: string; text: string }[]>(
      `[...document.querySelectorAll('[data-figure]')].map((cell) => ({
        id: cell.dataset.figure, as: cell.dataset.as, text: cell.textContent,
      }))`,
    );
    expect(shown.length).toBeGreaterThan(4);
    const find = finderOf(results);
    for (const { id, as, text } of shown) {
      const expected = as === 'floors' ? find(id)?.floors?.median : find(id)?.median;
      const number = Number(text.replace(/[^\d.-]/g, ''));
      // Three significant digits are shown.
      expect(number / (expected ?? Number.NaN), `${id} reads ${text}`).toBeCloseTo(1, 1.9);
    }
  });

  it.each([390, 1280])('fits a screen of %d px', async (width) => {
    await show(width);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    for (const chart of await chartsOf(page)) expect(chart.width).toBeGreaterThan(340);
    expect(await page.locator('figure svg:visible').count()).toBe(6);
  });

  it('leaves the bars out of a quick run, and says when a run is void', async () => {
    expect(await page.locator('.void').count()).toBe(0);
    const file = path.join(directory, 'other.html');
    const wrongVerdicts = [{ where: 'throughput/warm/d4/c32', count: 3, first: '200 {"valid":false}' }];
    writeFileSync(file, await renderReport({ ...results, mode: 'quick', isVoid: true, wrongVerdicts }));
    const other = await open(file);
    expect((await sectionsOf(other)).at(-1)).toBe('skipped');
    expect(await other.locator('.void').textContent()).toContain('3 wrong answers in throughput/warm/d4/c32');
    await other.close();
  });
});
