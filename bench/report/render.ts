import { readFileSync } from 'node:fs';
import { intervalOf } from '../measure/interval.js';
import { source } from '../run/paths.js';
import type { Results } from '../run/results.js';
import { drawLatency, drawOverload } from './charts.js';
import { drawPanels } from './panels.js';
import { checkBars } from './bars.js';

/** The bars as text: the page itself does not contain their definitions. */
function barsOf(results: Results) {
  return checkBars(results).map(({ bar, measured, low, high, verdict }) => ({
    ...{ what: bar.what, id: bar.id, verdict },
    ...{
      measured: bar.show(measured),
      interval: `${bar.show(low)} … ${bar.show(high)}`,
      bar: bar.show(bar.bar),
      aim: bar.show(bar.aim),
    },
  }));
}

/** The interval of each figure's median, in its unit and in floors. */
function intervalsOf({ figures }: Results) {
  const ends = (samples: readonly number[]) => {
    const { low, high } = intervalOf(samples);
    return [low, high];
  };
  return Object.fromEntries(
    figures.map(({ id, samples, samplesInFloors }) => [
      id,
      { value: ends(samples), floors: samplesInFloors === null ? null : ends(samplesInFloors) },
    ]),
  );
}

/** Renders the report as one self-contained page, which needs no network. */
export async function renderReport(results: Results): Promise<string> {
  const panels = Object.entries(await drawPanels(results)).map(
    ([name, svg]) => `<div class="picture" data-chart="${name}">${svg}</div>`,
  );
  const parts: Readonly<Record<string, string>> = {
    'style.css': readFileSync(source('report/browser/style.css'), 'utf8'),
    'drawing.js': readFileSync(source('report/browser/drawing.js'), 'utf8'),
    'sections.js': readFileSync(source('report/browser/sections.js'), 'utf8'),
    'more-sections.js': readFileSync(source('report/browser/more-sections.js'), 'utf8'),
    // "<" is escaped, since a string with "</script>" in the results would end the script element.
    'results.json': JSON.stringify({
      ...results,
      bars: barsOf(results),
      intervals: intervalsOf(results),
    }).replaceAll('<', '\\u003c'),
  };
  const charts: Readonly<Record<string, string>> = {
    latency: (await drawLatency(results)) ?? '',
    latencyNarrow: (await drawLatency(results, true)) ?? '',
    overload: (await drawOverload(results)) ?? '',
    overloadNarrow: (await drawOverload(results, true)) ?? '',
    panels: panels.join('\n'),
  };
  const page = readFileSync(source('report/page.html'), 'utf8');
  const drawn = page.replace(/<!--\{\{(\w+)\}\}-->/g, (_, name: string) => charts[name] ?? '');
  return drawn.replace(/\/\*\{\{([a-z.-]+)\}\}\*\//g, (_, name: string) => {
    const part = parts[name];
    if (part === undefined) throw new Error(`report/page.html asks for ${name}, which there is not`);
    return part;
  });
}
