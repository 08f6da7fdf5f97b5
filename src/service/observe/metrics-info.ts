import { Gauge, type Registry } from 'prom-client';
import { BUILD } from '../build-info.js';
import type { Configuration } from '../configuration/configuration.js';
import { variableOf } from '../configuration/environment.js';

/** The limits that alerting rules compare with. They read them from the metrics, so no number is written twice. */
const LIMITS = [
  'maxPending',
  'queueBurstMs',
  'queueTargetMs',
  'maxBodyMemory',
  'workerThreads',
  'receiptCacheBytes',
  'statusCacheTtlSecs',
  'statusMaxStaleSecs',
  'replayWindowSecs',
] as const satisfies readonly (keyof Configuration)[];

/** Adds version and configuration as metrics. Their values never change while the process runs. */
export function showInfo(registry: Registry, configuration: Configuration): void {
  const one = (name: string, help: string, labels: Record<string, string>) =>
    new Gauge({ name, help, labelNames: Object.keys(labels), registers: [registry] }).set(labels, 1);
  one('drs_build_info', 'The version that runs', { ...BUILD, node: process.version });
  const { replayProtection, revocationStore, revocationStorePath, statusListBaseUrl, trustedRoots } =
    configuration;
  const { requireBinding, drsAdminToken, serverIdentity } = configuration;
  const onOff = (isOn: boolean) => (isOn ? 'on' : 'off');
  one('drs_config_info', 'What is configured', {
    admin: onOff(drsAdminToken !== undefined),
    replay_protection: replayProtection ?? 'off',
    require_binding: onOff(requireBinding),
    revocation_store: revocationStore ?? (revocationStorePath === undefined ? 'memory' : 'file'),
    server_identity: onOff(serverIdentity !== undefined && serverIdentity !== 'any'),
    status_list: onOff(statusListBaseUrl !== undefined),
    trusted_roots: onOff(trustedRoots !== undefined),
  });
  const limits = new Gauge({
    name: 'drs_config_limit',
    help: 'The value of a configuration variable',
    labelNames: ['variable'],
    registers: [registry],
  });
  for (const limit of LIMITS) limits.set({ variable: variableOf(limit) }, configuration[limit]);
}
