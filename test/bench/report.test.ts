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
  // Containers have little shared memory, and a browser crashes without enough of it.
  ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
];

/** Only a browser that hangs takes longer than this; a busy machine may need a minute to start one. In ms. */
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

  // Console output, errors and network requests of the pages.
  const complaints: string[] = [];
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

  async function open(file: string, width = 1200, colorScheme: 'light' | 'dark' = 'light'): Promise<Page> {
    // If the system has killed the browser, it is started again: the page is tested, not the browser.
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

  // Code for the page is text here, because the types of this project have no browser.

  /** The charts that the page shows, with their widths in px. */
  const chartsOf = (page: Page) =>
    page.evaluate<
      { name: string; width: number }[]
    >(`[...document.querySelectorAll('main [data-chart]')].map((chart) => ({
      name: chart.dataset.chart, width: chart.querySelector('svg').getBoundingClientRect().width,
    }))`);

  it('draws every chart and section', async () => {
    const page = await open(report);
    const charts = await chartsOf(page);
    expect(charts.map(({ name }) => name)).toEqual([
      ...['cpu', 'throughput', 'percentiles-1', 'percentiles-32', 'open-loop-4'],
      ...['stages-warm', 'stages-cold', 'peers-4'],
    ]);
    for (const { width } of charts) expect(width).toBeGreaterThan(200);
    expect(await page.locator('.headline svg:visible').count()).toBe(2);
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

  it('has tiles with ratios and what they lie between', async () => {
    const page = await open(report);
    const tiles = await page.locator('.tile').allTextContents();
    expect(tiles).toContainEqual(
      expect.stringMatching(/^1\.4\d floors1\.4\d … 1\.\d+processor time, warm, depth 4$/),
    );
    expect(tiles).toContainEqual(expect.stringMatching(/^\d+ of \d+\d+ not met, \d+ cannot tellbars met$/));
    await page.close();
  });

  it('fits a phone', async () => {
    const page = await open(report, 360);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    for (const { width } of await chartsOf(page)) expect(width).toBeGreaterThan(200);
    expect(await page.locator('.headline svg:visible').count()).toBe(2);
    // No table is wider than its place: no column is cut off.
    const cut = `[...document.querySelectorAll('.wide')].filter((place) => place.scrollWidth > place.clientWidth).length`;
    expect(await page.evaluate(cut)).toBe(0);
    await page.close();
  });

  it('is dark where the reader wants it, and light on paper', async () => {
    const page = await open(report, 1200, 'dark');
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    expect(await background()).toBe('rgb(20, 23, 27)');
    await page.emulateMedia({ media: 'print' });
    expect(await background()).toBe('rgb(255, 255, 255)');
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
