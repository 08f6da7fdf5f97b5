import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT, source } from '../run/paths.js';
import type { Results } from '../run/results.js';
import { drawLatency, drawOverload } from './charts.js';
import { judgeBars } from './bars.js';

/** The bars in words, since the page does not know them. */
function barsOf(results: Results) {
  return judgeBars(results).map(({ bar, measured, low, high, verdict }) => ({
    ...{ what: bar.what, id: bar.id, verdict },
    ...{
      measured: bar.show(measured),
      interval: `${bar.show(low)} … ${bar.show(high)}`,
      bar: bar.show(bar.bar),
      aim: bar.show(bar.aim),
    },
  }));
}

/** The report as one self-contained page: it needs no network. */
export async function renderReport(results: Results): Promise<string> {
  const headline = (await drawLatency(results)) ?? '';
  const overload = (await drawOverload(results)) ?? '';
  const parts: Readonly<Record<string, string>> = {
    'uplot.css': readFileSync(path.join(ROOT, 'node_modules/uplot/dist/uPlot.min.css'), 'utf8'),
    'uplot.js': readFileSync(path.join(ROOT, 'node_modules/uplot/dist/uPlot.iife.min.js'), 'utf8'),
    'style.css': readFileSync(source('report/browser/style.css'), 'utf8'),
    'drawing.js': readFileSync(source('report/browser/drawing.js'), 'utf8'),
    'sections.js': readFileSync(source('report/browser/sections.js'), 'utf8'),
    'more-sections.js': readFileSync(source('report/browser/more-sections.js'), 'utf8'),
    // "<" would end the script element where a string in the results holds "</script>".
    'results.json': JSON.stringify({ ...results, bars: barsOf(results) }).replaceAll('<', '\\u003c'),
  };
  const charts: Readonly<Record<string, string>> = { latency: headline, overload };
  const page = readFileSync(source('report/page.html'), 'utf8');
  const drawn = page.replace(/<!--\{\{(\w+)\}\}-->/g, (_, name: string) => charts[name] ?? '');
  return drawn.replace(/\/\*\{\{([a-z.-]+)\}\}\*\//g, (_, name: string) => {
    const part = parts[name];
    if (part === undefined) throw new Error(`report/page.html asks for ${name}, which there is not`);
    return part;
  });
}
