import type { Metric, Registry } from 'prom-client';
import type { ReplayStore } from '../../../usage/index.js';
import { CATALOGUE } from '../../../verify/codes.js';
import { BUILD } from '../build-info.js';
import type { Configuration } from '../../configuration/configuration.js';
import { variableOf } from '../../configuration/environment.js';
import type { Core } from '../../core.js';
import type { ListenerConnections } from '../../load/connections.js';
import { Distribution } from './metrics.js';

export interface Sources extends Core {
  readonly server: { readonly open: number };
  readonly connections: ListenerConnections;
  readonly configuration: Configuration;
  readonly certificate: { readonly current: { readonly expiresAt: number } | null };
}

/**
 * All metrics of a process: name, type, help, labels, and where the value comes from. Each is in docs/observability.md and
 * docs/openapi.yaml, too; tests compare them.
 */
// prettier-ignore
export const METRICS: readonly Row<Sources>[] = [
  ['drs_verify_verifications_total', 'counter', 'Verdicts', ['result'], (s) => s.metrics.verdicts],
  ['drs_verify_duration_seconds', 'histogram', 'Time from a parsed bundle to its verdict, by receipts and what was known of them', ['depth', 'cache'], (s) => s.metrics.verifySeconds],
  ['drs_verify_errors_total', 'counter', 'Verdicts that were not valid, by code', ['block', 'code'], failures],
  ['drs_verify_rejections_total', 'counter', 'Requests to /verify without a verdict', ['reason'], (s) => s.metrics.rejections],
  ['drs_verify_pending', 'gauge', 'Requests waiting for a verdict', [], (s) => s.gatekeeper.pending],
  ['drs_binding_checks_total', 'counter', 'Bodies compared with signed arguments', ['result'], (s) => s.metrics.bindings],
  ['drs_admin_calls_total', 'counter', 'Calls of /admin endpoints', ['outcome'], (s) => s.metrics.adminCalls],
  ['drs_decision_log_lines_total', 'counter', 'Lines of the decision log', ['outcome'], (s) => s.verdicts.decisions?.counts],

  ['drs_gate_decisions_total', 'counter', 'Decisions of the gate; denials by code', ['protocol', 'decision', 'code'], (s) => s.metrics.decisions],
  ['drs_gate_rejections_total', 'counter', 'Questions to the gate that were answered without a check of the call', ['endpoint', 'reason'], (s) => s.metrics.gateRejections],
  ['drs_grpc_calls_total', 'counter', 'Calls over gRPC', ['method', 'status'], (s) => by(grpc(s)?.grpcCalls, (one) => one.statuses)],
  ['drs_grpc_call_duration_seconds', 'histogram', 'From the headers of a call to its end', ['method'], (s) => by(grpc(s)?.grpcCalls, (one) => one.seconds)],
  ['drs_grpc_open_calls', 'gauge', 'Open calls over gRPC', [], (s) => grpc(s)?.openCalls],

  ['drs_approvals_total', 'counter', 'What happened to questions to persons; approved: each yes of a passkey', ['event'], (s) => s.metrics.approvals],
  ['drs_approvals_open', 'gauge', 'Questions to persons that are held, with answers that can still be used or still hold', [], (s) => s.metrics.openApprovals()],
  ['drs_approval_decision_seconds', 'histogram', 'Time from a question to each yes or no', [], (s) => s.metrics.answerSeconds],

  ['drs_replay_checks_total', 'counter', 'Invocations checked for replay', ['scope', 'result'], (s) => byScope(s, (_, scope) => s.metrics.replays[scope].results)],
  ['drs_replay_check_duration_seconds', 'histogram', 'How long the replay store took', ['scope'], (s) => byScope(s, (_, scope) => s.metrics.replays[scope].seconds)],
  ['drs_limits_reached_total', 'counter', 'Calls refused by a limit of a receipt', ['scope', 'limit'], (s) => byScope(s, (_, scope) => s.metrics.replays[scope].limits)],
  ['drs_clock_ahead_seconds', 'histogram', 'By how much an invocation was signed in the future, if it was', ['scope'], (s) => byScope(s, (_, scope) => s.metrics.replays[scope].ahead)],
  ['drs_store_lost_total', 'counter', 'Losses of data by Redis that were noticed', ['scope'], (s) => byScope(s, (store) => store.losses ?? 0)],
  ['drs_store_lost_timestamp_seconds', 'gauge', 'When the last loss of data was found, in Unix seconds; calls signed before are refused', ['scope', 'found_by'], (s) => byScope(s, lossOf)],
  ['drs_store_clock_difference_seconds', 'gauge', 'How far the clock here is ahead of that of the store', ['scope'], (s) => byScope(s, (store) => store.clockAheadSecs ?? 0)],
  ['drs_refunds_total', 'counter', 'Refunds asked for at /v1/refund, by code', ['result'], (s) => s.metrics.refunds],
  ['drs_usage_counters', 'gauge', 'Limited receipts that are counted in this process', ['scope'], (s) => byScope(s, (store) => store.counters)],
  ['drs_replay_entries', 'gauge', 'Used invocations recorded in this process', ['scope'], (s) => byScope(s, (store) => store.capacity && (store.size ?? 0))],
  ['drs_replay_capacity', 'gauge', 'Maximum number of used invocations in this process', ['scope'], (s) => byScope(s, (store) => store.capacity)],

  ['drs_http_request_duration_seconds', 'histogram', 'Time from the request line to the answer', ['endpoint'], (s) => by(s.metrics.requests, (one) => one.seconds)],
  ['drs_http_requests_total', 'counter', 'Requests that were answered', ['endpoint', 'status'], (s) => by(s.metrics.requests, (one) => one.answers)],
  ['drs_http_requests_aborted_total', 'counter', 'Requests whose client went away before the answer', ['endpoint'], (s) => by(s.metrics.requests, (one) => one.aborted)],
  ['drs_http_open_requests', 'gauge', 'Requests whose answer is not sent yet', [], (s) => s.server.open],
  ['drs_http_body_bytes', 'gauge', 'Memory counted for bodies that are read, parsed or waiting', [], (s) => s.gatekeeper.bodyBytes],
  ['drs_http_connections', 'gauge', 'Connections that are open', ['listener'], (s) => by(s.connections, (one) => one?.open)],
  ['drs_http_max_connections', 'gauge', 'Connections that may be open', ['listener'], (s) => by(s.connections, (one) => one?.limit)],
  ['drs_http_connections_total', 'counter', 'Connections that have come', ['listener'], (s) => by(s.connections, (one) => one?.accepted)],
  ['drs_http_connections_refused_total', 'counter', 'Connections closed at once: too many', ['listener'], (s) => by(s.connections, (one) => one?.refused)],
  ['drs_tls_certificate_expiry_timestamp_seconds', 'gauge', 'When the certificate that is served expires, in Unix seconds', [], (s) => s.certificate.current?.expiresAt],

  ['drs_signatures_total', 'counter', 'Signatures verified, by where', ['thread'], (s) => ({ main: s.engine.signatures.stats.inThread, worker: s.engine.signatures.stats.pooled })],
  ['drs_signatures_pending', 'gauge', 'Signatures waiting for a thread', [], (s) => s.engine.signatures.stats.pending],
  ['drs_signature_workers', 'gauge', 'Worker threads that take signatures', [], (s) => s.engine.signatures.stats.workers],
  ['drs_signature_worker_deaths_total', 'counter', 'Worker threads that ended on their own, or did not come back', [], (s) => s.metrics.workerDeaths],
  ['drs_signature_batches_total', 'counter', 'Batches handed to workers', [], (s) => s.engine.signatures.stats.batches],
  ['drs_signature_batches_repeated_total', 'counter', 'Batches whose worker died', [], (s) => s.engine.signatures.stats.repeated],
  ['drs_signature_batch_checks', 'histogram', 'Signatures in a batch for a worker', [], (s) => s.metrics.batchSizes],
  ['drs_signature_batch_duration_seconds', 'histogram', 'Time from handing a batch to a worker until its results are back', [], (s) => s.metrics.batchSeconds],
  ['drs_signature_queue_duration_seconds', 'histogram', 'How long the signatures of a bundle waited for a thread, without those that were verified at once', [], (s) => s.metrics.queueSeconds],
  ['drs_receipt_cache_lookups_total', 'counter', 'Receipts looked up in the cache', ['result'], (s) => ({ hit: s.engine.cache.stats.hits, miss: s.engine.cache.stats.misses })],
  ['drs_receipt_cache_evictions_total', 'counter', 'Receipts removed from the cache to make room for others', [], (s) => s.engine.cache.stats.evictions],
  ['drs_receipt_cache_bytes', 'gauge', 'Estimated size of the receipt cache', [], (s) => s.engine.cache.stats.bytes],
  ['drs_receipt_cache_receipts', 'gauge', 'Receipts in the cache', [], (s) => s.engine.cache.stats.receipts],

  ['drs_trusted_roots', 'gauge', 'Root principals that are trusted, by the file', [], (s) => s.engine.rootsFile?.size],
  ['drs_trusted_roots_reads_total', 'counter', 'Changes of the file of trusted roots that were read', ['outcome'], (s) => s.engine.rootsFile === null ? undefined : s.metrics.linesReads.roots],
  ['drs_did_documents', 'gauge', 'Documents of did:web entries: that came when they were last asked for, that are used although they did not, that are missing', ['state'], (s) => s.engine.keys.counts],
  ['drs_stated_total', 'counter', 'Limits that valid calls kept to, by who states what they limit', ['stated_by'], (s) => s.metrics.stated],
  ['drs_tools', 'gauge', 'Tools that are described, by the file', [], (s) => s.engine.toolsFile?.size],
  ['drs_tools_reads_total', 'counter', 'Changes of the file of tools that were read', ['outcome'], (s) => s.engine.toolsFile === null ? undefined : s.metrics.linesReads.tools],
  ['drs_reload_failed', 'gauge', '1 if this could not be read again, so that an older one is in force', ['part'], (s) => ({ ...s.metrics.failedReloads, ...(s.engine.rootsFile && { roots: Number(s.engine.rootsFile.isFaulty) }), ...(s.engine.toolsFile && { tools: Number(s.engine.toolsFile.isFaulty) }) })],

  ['drs_revocation_lookups_total', 'counter', 'Indices looked up', ['source', 'revoked'], (s) => s.metrics.lookups],
  ['drs_revocation_entries', 'gauge', 'Local revocations', [], (s) => s.engine.revocation.store.entries.size],
  ['drs_revocation_capacity', 'gauge', 'Maximum number of local revocations', [], (s) => s.configuration.revocationMaxEntries],
  ['drs_revocation_fsync_duration_seconds', 'histogram', 'Time a flush of the revocation store to disk took', [], (s) => s.metrics.syncSeconds],
  ['drs_revocation_propagation_seconds', 'histogram', 'Time from recording a revocation in Redis until this process applies it', [], (s) => s.metrics.propagationSeconds],
  ['drs_revocation_copy_age_seconds', 'gauge', 'Time since the copy of the revocations in Redis was last known to be complete', [], (s) => isStoreInRedis(s) ? s.engine.revocation.store.copyAgeSecs : undefined],
  ['drs_revocation_replicas_missing', 'gauge', 'Replicas that are missing for REVOCATION_MIN_REPLICAS: if there are any, nothing can be revoked', [], (s) => s.engine.revocation.store.missingReplicas],
  ['drs_status_list_entries', 'gauge', 'Entries of the status list in memory', [], (s) => s.engine.revocation.list?.entries ?? 0],
  // NaN if there is no list: Prometheus then shows no value, while 0 would look like a fresh list.
  ['drs_status_list_age_seconds', 'gauge', 'Time since the status list was fetched', [], (s) => s.engine.revocation.list?.ageSecs ?? Number.NaN],
  ['drs_status_list_fetches_total', 'counter', 'Fetches of the status list', ['outcome'], (s) => s.metrics.fetches],
  ['drs_status_list_fetch_duration_seconds', 'histogram', 'Time a fetch of the status list took', [], (s) => s.metrics.fetchSeconds],
  ['drs_root_lists', 'gauge', 'Status lists of roots in memory', [], (s) => s.engine.revocation.ofRoots.stats.lists],
  ['drs_root_lists_bytes', 'gauge', 'Their size', [], (s) => s.engine.revocation.ofRoots.stats.bytes],
  ['drs_root_lists_failing', 'gauge', 'Status lists that could not be fetched when they were last needed, by the names of their rows (at most 20)', ['root'], (s) => s.engine.revocation.ofRoots.failing],
  ['drs_root_list_fetches_total', 'counter', 'Fetches of status lists of roots', ['outcome'], (s) => s.metrics.rootListFetches],
  ['drs_dependency_up', 'gauge', '1 if the dependency answered when it was last asked', ['dependency'], dependencies],

  ['drs_build_info', 'gauge', 'The version that runs', ['version', 'commit', 'node'], () => one(BUILD.version, BUILD.commit, process.version)],
  ['drs_config_info', 'gauge', 'What is configured', ['admin', 'gate_mode', 'replay_protection', 'require_binding', 'revocation_store', 'server_identity', 'status_list', 'trusted_roots'], configured],
  ['drs_config_limit', 'gauge', 'The value of a configuration variable', ['variable'], limits],
];

function failures({ metrics }: Sources): Values {
  return CATALOGUE.map(({ block, code }) => [block, { [code]: metrics.failures.get(code) ?? 0 }]);
}

function grpc({ connections, metrics }: Sources) {
  return connections.grpc === null ? undefined : metrics;
}

function isStoreInRedis({ engine: { revocation } }: Sources): boolean {
  return !Number.isNaN(revocation.store.copyAgeSecs);
}

function dependencies(sources: Sources): Values {
  const { metrics, engine, gate, configuration } = sources;
  // Redis has three uses. It is down if one of them fails.
  const uses = [
    configuration.replayProtection === 'redis' ? engine.replays?.unreadyReason === null : undefined,
    configuration.gateReplay === 'redis' ? gate.replays?.unreadyReason === null : undefined,
    isStoreInRedis(sources) ? engine.revocation.store.isCurrent : undefined,
  ].filter((isUp) => isUp !== undefined);
  return {
    ...(configuration.statusListBaseUrl !== undefined && { status_list: metrics.isListFetched ? 1 : 0 }),
    ...(uses.length > 0 && { redis: uses.every(Boolean) ? 1 : 0 }),
  };
}

function configured({ configuration: c }: Sources): Values {
  const onOff = (isOn: boolean) => (isOn ? 'on' : 'off');
  return one(
    onOff(c.drsAdminToken !== undefined),
    c.gateMode,
    c.replayProtection ?? 'off',
    onOff(c.requireBinding),
    c.revocationStore ?? (c.revocationStorePath === undefined ? 'memory' : 'file'),
    onOff(c.serverIdentity !== undefined && c.serverIdentity !== 'any'),
    onOff(c.statusListBaseUrl !== undefined),
    onOff(c.trustedRoots !== undefined || c.trustedRootsFile !== undefined),
  );
}

/** The limits that alerting rules compare with. They read them from the metrics, so no number is written twice. */
function limits({ configuration }: Sources): Values {
  // prettier-ignore
  const named = [
    'maxPending', 'maxBodyMemory', 'workerThreads', 'receiptCacheBytes',
    'statusCacheTtlSecs', 'statusMaxStaleSecs', 'replayWindowSecs',
  ] as const;
  return named.map((limit) => [variableOf(limit), configuration[limit]]);
}

/** A 1 under one value of each label. */
function one(...labels: readonly string[]): Values {
  return labels.reduceRight<Values>((values, label) => ({ [label]: values }), 1);
}

/** What is read of each member, by its name; `undefined` if there is nothing to read. */
function by<One, Label extends string>(
  members: Readonly<Record<Label, One>> | undefined,
  read: (one: One, label: Label) => Values | undefined,
): Values | undefined {
  const values = (Object.keys(members ?? {}) as Label[]).flatMap((label) => {
    const value = members && read(members[label], label);
    return value === undefined ? [] : [[label, value] as const];
  });
  return values.length === 0 ? undefined : values;
}

/** What is read of each record of used invocations; there is none where an invocation may be used again. */
function byScope(
  { engine, gate }: Sources,
  read: (store: ReplayStore, scope: 'verify' | 'gate') => Values | undefined,
): Values | undefined {
  const stores = { verify: engine.replays, gate: gate.replays };
  return by(stores, (store, scope) => (store === null ? undefined : read(store, scope)));
}

/** When the last loss was found, by who found it; 0 where there is none that operators should see. */
const lossOf = ({ isLossFoundHere: isHere = null, lostAt = 0 }: ReplayStore): Values =>
  isHere === false ? { other: lostAt } : { this: isHere === true ? lostAt : 0 };

/** The values of a metric: one, or by each value of the first label those for the other labels. */
type Values =
  | number
  | Distribution
  | Iterable<readonly [label: string | number, values: Values]>
  | { readonly [label: string]: Values };

export type Row<Sources> = readonly [
  name: string,
  type: 'counter' | 'gauge' | 'histogram',
  help: string,
  labels: readonly string[],
  /** Reads the values for each scrape; `undefined` if the part that the metric is about is off. */
  read: (sources: Sources) => Values | undefined,
];

interface Sample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/**
 * Adds the metrics of a table to a registry, except those of parts that are off.
 *
 * @param sources where the values come from
 */
export function show<Sources>(registry: Registry, table: readonly Row<Sources>[], sources: Sources): void {
  for (const [name, type, help, labels, read] of table) {
    if (read(sources) === undefined) continue;
    const get = () => {
      const values = [...samplesOf(name, read(sources) ?? [], labels)];
      return Promise.resolve({ name, help, type, aggregator: 'sum', values });
    };
    // A registry only calls `get`, but its type requires one of prom-client's own classes.
    registry.registerMetric({ name, get } as unknown as Metric);
  }
}

function* samplesOf(
  name: string,
  values: Values,
  labelNames: readonly string[],
  labels: Sample['labels'] = {},
): Generator<Sample> {
  if (typeof values === 'number') yield { labels, value: values };
  else if (values instanceof Distribution) yield* bucketsOf(name, values, labels);
  else {
    const [label = '', ...others] = labelNames;
    for (const [is, inner] of Symbol.iterator in values ? values : Object.entries(values))
      yield* samplesOf(name, inner, others, { ...labels, [label]: is });
  }
}

/** A distribution with labels is omitted until it has an observation. */
function* bucketsOf(name: string, { buckets, counts, sum }: Distribution, labels: Sample['labels']) {
  const total = counts.reduce((all, count) => all + count, 0);
  if (total === 0 && Object.keys(labels).length > 0) return;
  let below = 0;
  for (const [bucket, count] of counts.entries()) {
    below += count;
    yield {
      metricName: `${name}_bucket`,
      labels: { le: buckets[bucket] ?? '+Inf', ...labels },
      value: below,
    };
  }
  yield { metricName: `${name}_sum`, labels, value: sum };
  yield { metricName: `${name}_count`, labels, value: total };
}
