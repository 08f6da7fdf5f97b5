import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Fault } from './fault.js';
import { ServiceProcess } from '../support/service-process.js';
import { revoke, sleep, Traffic, type Delegation, type Violation } from './traffic.js';

const TOKEN = 'faults-faults-faults-faults';
const RECOVERY_LIMIT_MS = 60_000;

/** The result of one fault. */
export interface Outcome {
  readonly name: string;
  /** Milliseconds from the end of the fault until a call that was sent after its end was valid. */
  readonly recoveryMs: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly acknowledged: number;
  readonly notes: readonly string[];
  /** Empty if there were none. */
  readonly problems: readonly string[];
  readonly violations: readonly Violation[];
}

/** Causes a fault under traffic, and checks every answer before, during and after it. */
export async function runFault(fault: Fault, { rate = 60, lastMs = 2000 } = {}): Promise<Outcome> {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-fault-'));
  const notes: string[] = [];
  const problems: string[] = [];
  const setup = await fault.prepare(folder);
  let service: ServiceProcess | null = null;
  let traffic: Traffic | null = null;
  try {
    const { env, within, nodeFlags } = setup;
    service = await ServiceProcess.start({
      env: { DRS_ADMIN_TOKEN: TOKEN, ...env },
      ...(within === undefined ? {} : { within }),
      ...(nodeFlags === undefined ? {} : { nodeFlags }),
    });
    traffic = new Traffic({
      url: service.url,
      rate: setup.rate ?? rate,
      isReplayRefused: setup.isReplayRefused ?? false,
      ...(setup.aheadSecs === undefined ? {} : { aheadSecs: setup.aheadSecs }),
    });
    for (let at = 0; at < 10; at++) traffic.add(false);
    traffic.start();
    if ((await traffic.untilValid(RECOVERY_LIMIT_MS)) === Infinity)
      problems.push('no call was valid before the fault');
    const acknowledged: Delegation[] = [];
    const { url } = service;
    const revokeOne = async (): Promise<boolean> => {
      const next = traffic?.delegations.find(
        (delegation) => delegation.index !== null && delegation.revokedAt === Infinity,
      );
      // The remaining delegations are needed to keep the traffic going.
      if (next === undefined) return false;
      const isAcknowledged = await revoke(url, TOKEN, next);
      if (isAcknowledged) acknowledged.push(next);
      traffic?.add();
      return isAcknowledged;
    };
    for (let at = 0; at < 3; at++) await revokeOne();
    await setup.run({
      ...{ service, traffic, revokeOne, lastMs },
      note: (text) => notes.push(text),
      demand: (holds, what) => holds || problems.push(what),
    });
    const recoveryMs = await traffic.untilValid(RECOVERY_LIMIT_MS);
    if (recoveryMs === Infinity) problems.push(`not back within ${RECOVERY_LIMIT_MS} ms`);
    await sleep(300);
    traffic.pause();
    for (const delegation of acknowledged) {
      const answer = await traffic.call(delegation);
      if (answer?.code === 'RECEIPT_REVOKED') continue;
      const found = answer?.valid === true ? 'valid' : (answer?.code ?? 'without an answer');
      problems.push(`index ${delegation.index} was acknowledged as revoked, and is ${found}`);
    }
    await traffic.stop();
    if (traffic.violations.length > 0) problems.push(`${traffic.violations.length} wrong valid: true`);
    return {
      ...{ name: fault.name, recoveryMs, answers: traffic.counts, acknowledged: acknowledged.length },
      ...{ notes, problems, violations: traffic.violations },
    };
  } finally {
    await traffic?.stop();
    service?.signal('SIGCONT');
    await service?.stop('SIGKILL');
    await setup.close?.();
    rmSync(folder, { recursive: true, force: true });
  }
}
