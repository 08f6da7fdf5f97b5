import type { Suite } from '../run/suite.js';
import { cache } from './cache.js';
import { closedLoop } from './closed-loop.js';
import { engines } from './engines.js';
import { floor } from './floor.js';
import { gate } from './gate.js';
import { generators } from './generators.js';
import { handover } from './handover.js';
import { inProcess } from './in-process.js';
import { memory } from './memory.js';
import { openLoop } from './open-loop.js';
import { overload } from './overload.js';
import { latencyByDepth } from './latency-by-depth.js';
import { overhead } from './overhead.js';
import { peers } from './peers.js';
import { processes } from './processes.js';
import { revocation } from './revocation.js';
import { scaling } from './scaling.js';
import { scrape } from './scrape.js';
import { stages } from './stages.js';

/**
 * The suites of a run without options. The overhead of the suite itself comes before the measurements that include it.
 */
export const DEFAULT_SUITES: readonly Suite[] = [
  floor,
  overhead,
  stages,
  inProcess,
  closedLoop,
  openLoop,
  scaling,
  memory,
  cache,
  revocation,
  scrape,
  handover,
];

/** The suites that `--only` can name. */
export const ALL_SUITES: readonly Suite[] = [
  ...DEFAULT_SUITES,
  latencyByDepth,
  overload,
  engines,
  gate,
  processes,
  peers,
  generators,
];

/** The suites that CI runs. */
export const SMOKE_SUITES: readonly Suite[] = [floor, inProcess, closedLoop, gate, generators];
