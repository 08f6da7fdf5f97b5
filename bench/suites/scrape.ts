import { bestTool, measureClosedLoop, prime } from '../load/measure-load.js';
import { startService, type ServerProcess } from '../service/start.js';
import type { Suite } from '../run/suite.js';

const DEPTH = 4;
const CONNECTIONS = 32;

/** Measures whether scraping the metrics affects latency. */
export const scrape: Suite = {
  name: 'scrape',
  about: 'latency with and without /metrics scraped each second',
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    const server = await startService();
    try {
      await prime(bench, server, DEPTH);
      const tool = bestTool();
      for (let run = 1; run <= Math.min(2, plan.runs); run++) {
        for (const scraped of ['unscraped', 'scraped'] as const) {
          recorder.measureFloor();
          const stop = scraped === 'scraped' ? scrapeEachSecond(server) : () => undefined;
          await measureClosedLoop(bench, {
            id: `scrape/${scraped}`,
            parameters: { tool, depth: DEPTH, connections: CONNECTIONS, traffic: 'warm', scraped },
            ...{ server, hasMetrics: true, tool, connections: CONNECTIONS, seconds: plan.scrapeSeconds },
            workload: workloads.files('warm', DEPTH),
          });
          stop();
          bench.say(`scrape · ${scraped}, run ${run}`);
        }
      }
    } finally {
      await server.stop();
    }
  },
};

function scrapeEachSecond(server: ServerProcess): () => void {
  const scrapeNow = () => void server.metric('drs_verify_verifications_total{').catch(() => undefined);
  scrapeNow();
  const timer = setInterval(scrapeNow, 1000);
  return () => clearInterval(timer);
}
