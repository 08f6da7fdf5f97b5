import type { Logger } from 'pino';
import { openEngine } from '../verifier/create-verifier.js';
import type { Engine } from '../verifier/engine.js';
import type { Configuration } from './configuration/configuration.js';
import { Admission } from './load/admission.js';
import { Backlog } from './load/backlog.js';
import { DecisionLog } from './observe/logs/decision-log.js';
import { LineFile } from './observe/logs/line-file.js';
import { Metrics } from './observe/metrics/metrics.js';
import { RefusalLog } from './observe/logs/refusal-log.js';
import { VerdictLogs } from './observe/logs/verdict-logs.js';
import { openGate, type Gate } from './routes/gate-decider.js';

/** What was opened. It is closed in the opposite order. */
export class Opened {
  readonly #closers: (() => unknown)[] = [];

  add<T extends { close(): unknown }>(one: T): T {
    this.#closers.unshift(() => one.close());
    return one;
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0)) await close();
  }
}

/** What decides in a process, whatever asks it: HTTP, gRPC, a proxy in this process. */
export interface Deciding {
  readonly decisions: DecisionLog | null;
  readonly verdicts: VerdictLogs;
  readonly metrics: Metrics;
  readonly engine: Engine;
  readonly admission: Admission;
  readonly gate: Gate;
}

/**
 * Opens logs, verifier, admission and gate.
 *
 * @param opened gets what must be closed, also if this rejects
 * @throws Error if a store, a log or the routes cannot be opened
 */
export async function openDeciding(
  configuration: Configuration,
  log: Logger,
  opened: Opened,
): Promise<Deciding> {
  const decisions = await openDecisions(configuration, log);
  const verdicts = opened.add(new VerdictLogs(new RefusalLog(configuration.logRefusals, log), decisions));
  const metrics = new Metrics();
  const engine = opened.add(await openEngine(configuration, { log, observer: metrics.observer }));
  const admission = new Admission(configuration, new Backlog(configuration, engine.signatures));
  const gate = opened.add(await openGate({ engine, configuration, admission, metrics, log }));
  return { decisions, verdicts, metrics, engine, admission, gate };
}

async function openDecisions({ decisionLog }: Configuration, log: Logger): Promise<DecisionLog | null> {
  if (decisionLog === undefined) return null;
  try {
    return new DecisionLog(await LineFile.open(decisionLog, log));
  } catch (error) {
    throw new Error(
      `cannot write the decision log (DECISION_LOG): ${(error as Error).message}. ` +
        'Its folder must exist, and this process must be able to write to it.',
      { cause: error },
    );
  }
}
