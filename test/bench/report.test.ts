import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { drawCost, drawKnee, drawLatency, drawOverload, drawParts } from '../../bench/report/charts.js';
import { renderReport } from '../../bench/report/report.js';
import { renderTable } from '../../bench/report/table.js';
import { finderOf } from '../../bench/run/results.js';
import { launchBrowser, PATIENCE } from '../support/browser.js';
import { sampleResults } from './sample-results.js';
import { needs } from '../support/programs.js';

const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-report-'));
const results = sampleResults();
const report = path.join(directory, 'report.html');
writeFileSync(report, await renderReport(results));
afterAll(() => rmSync(directory, { recursive: true }));

it('prints a table with every bar that was measured, unless a single run can have no verdict', () => {
  const text = renderTable(results);
  expect(text).toContain('warm CPU, depth 4, 128 connections');
  expect(text).toContain('skipped: peers/biscuit');
  expect(text).toContain('NOISY: others had more than a tenth of the cores in 1 of 2');
  expect(renderTable({ ...results, mode: 'quick' })).not.toContain('warm CPU, depth 4, 128 connections');
});

// Beside the report, which has them too: the package that draws them takes a second to load.
describe('the charts', () => {
  it('of latency have both panels on one axis, and what the machine alone adds', async () => {
    const svg = await drawLatency(results, 640);
    for (const text of ['warm: ', 'cold: ', 'p50', 'p99', 'grey: the machine alone', 'receipts in the chain'])
      expect(svg).toContain(text);
    // The numbers of the axis stand at its left end only: it is the same for both.
    expect(svg?.match(/>ms</g)).toHaveLength(1);
    expect((await drawLatency(results, 350))?.match(/>ms</g)).toHaveLength(2);
  });

  it.each([
    ['cost', drawCost, ['signatures', 'processor time, floors']],
    ['the knee', drawKnee, ['% of the capacity', 'warm, depth 4', 'grey: the machine alone']],
    ['overload', drawOverload, ['answered', 'refused', 'times the capacity']],
    ['the parts', drawParts, ['libsodium', 'sockets and kernel', 'warm, depth 4']],
  ] as const)(
    'of %s have their words, and are left out where nothing was measured',
    async (_, drawIt, words) => {
      for (const width of [350, 736]) {
        const svg = await drawIt(results, width);
        expect(svg).toMatch(/^<svg/);
        for (const word of words) expect(svg).toContain(word);
      }
      expect(await drawIt({ ...results, figures: [] }, 736)).toBeNull();
    },
  );
});

// Where there is no browser this shows as skipped.
describe('report.html in Chromium', needs('chromium'), () => {
  let browser: Browser;
  /** One for all tests: a new page costs more than the report in it. */
  let page: Page;
  beforeAll(launch);
  afterAll(() => browser.close());

  // Console output, errors and network requests of the pages.
  const complaints: string[] = [];
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

  async function launch(): Promise<void> {
    browser = await launchBrowser();
    page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE);
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
    });
  }

  async function open(file: string, width = 1200): Promise<void> {
    // If the system has killed the browser, it is started again: the page is tested, not the browser.
    if (!browser.isConnected()) await launch();
    await page.setViewportSize({ width, height: 900 });
    await page.goto(pathToFileURL(file).href);
  }

  // Code for the page is text here, because the types of this project have no browser.

  /** The charts that the page shows, with their widths in px. */
  const charts = () =>
    page.evaluate<
      { name: string; width: number }[]
    >(`[...document.querySelectorAll('[data-chart]')].map((chart) => ({
      name: chart.dataset.chart,
      width: Math.max(...[...chart.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect().width)),
    }))`);
  const sections = () =>
    page.evaluate<string[]>(`[...document.querySelectorAll('section')].map(({ id }) => id)`);

  it('answers in the order in which one asks, the bars last', async () => {
    await open(report);
    expect(await sections()).toEqual(['cost', 'depth', 'parts', 'knee', 'peers', 'skipped', 'bars']);
    const drawn = await charts();
    expect(drawn.map(({ name }) => name)).toEqual(['cost', 'latency', 'parts', 'knee', 'overload']);
    // As wide as the text.
    for (const { width } of drawn) expect(width).toBeCloseTo(736, -1);
  });

  it('leaves the bars out of a quick run, and says when a run is void', async () => {
    const file = path.join(directory, 'void.html');
    const wrongVerdicts = [{ where: 'throughput/warm/d4/c32', count: 3, first: '200 {"valid":false}' }];
    writeFileSync(file, await renderReport({ ...results, mode: 'quick', wrongVerdicts }));
    await open(file);
    expect((await sections()).at(-1)).toBe('skipped');
    expect(await page.locator('.void').textContent()).toContain('3 wrong answers in throughput/warm/d4/c32');
  });

  it('shows the numbers of results.json', async () => {
    await open(report);
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
    await open(report, width);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    for (const chart of await charts()) expect(chart.width).toBeGreaterThan(340);
    expect(await page.locator('figure svg:visible').count()).toBe(5);
  });
});
