import { readOptions } from '../../protocol/options.js';
import { findContradictions, OptionsError } from '../../verifier/options.js';
import { readCertificate } from '../http/listen/certificate.js';
import { findStrangers, valueOf, variableOf, type Environment } from './environment.js';
import { nameIn } from '../../revocation/lists/proxy.js';
import { printableUrl } from '../../revocation/printable-url.js';
import { readSecretFiles } from './secret-files.js';
import {
  BODIES_IN_MEMORY,
  OPTIONS,
  SECRETS,
  SHARED,
  VARIABLES,
  type Configuration,
  type Variable,
} from './variables.js';

export { addressOf, VARIABLES, type Configuration } from './variables.js';

const SAFE_TOKEN_LENGTH = 16;
const MIB = 1024 * 1024;
/** The heap of a process besides what variables limit. */
const BASE_BYTES = 64 * MIB;
const BYTES_PER_REPLAY_ENTRY = 300;

/**
 * Reads the configuration. An empty variable counts as unset, except those that say whom to trust: there it is an
 * error. Lists are comma-separated. Numbers have no unit.
 *
 * @throws OptionsError with all problems; no message contains the value of a secret
 */
export function readConfiguration(given: Environment): Configuration {
  // What others add to `Object.prototype` is no variable.
  const env: Environment = Object.assign(Object.create(null) as object, given);
  const files = readSecretFiles(env, SECRETS);
  const problems = [...findStrangers(env, [...VARIABLES, ...SHARED]), ...findEmpty(env), ...files.problems];
  const nameOf = (option: string) =>
    OPTIONS.get(option)?.isShared ? nameIn(env, variableOf(option)) : variableOf(option);
  const textOf = (option: string) => files.secrets.get(option) ?? env[nameOf(option)]?.trim() ?? '';
  const values = [...OPTIONS]
    .filter(
      ([option, { isShared }]) => textOf(option) !== '' && !(isShared && textOf('statusListBaseUrl') === ''),
    )
    .map(([option, { kind }]) => [option, valueOf(textOf(option), kind)]);
  const say = (option: string, _: unknown, problem: string) => {
    const name = `${nameOf(option)}${files.secrets.has(option) ? '_FILE' : ''}`;
    return `${name} is ${show(OPTIONS.get(option), textOf(option))}: ${problem}`;
  };
  const read = readOptions(Object.fromEntries(values), Object.fromEntries(OPTIONS), false, say);
  // The kinds have checked each option.
  const configuration = read.options as unknown as Configuration;
  problems.push(...(read.problems.length > 0 ? read.problems : findConflicts(configuration)));
  if (problems.length > 0) throw new OptionsError(problems);
  return configuration;
}

function findConflicts(configuration: Configuration): string[] {
  const { maxBodyBytes, maxBodyMemory } = configuration;
  const problems: string[] = [];
  if (configuration.adminOnMetricsAddr && configuration.metricsAddr === undefined)
    problems.push('ADMIN_ON_METRICS_ADDR is set and METRICS_ADDR is not: set both, or neither');
  const { readyWithout, serverIdentity = '' } = configuration;
  if (/^(["']).*\1$/.test(serverIdentity))
    problems.push(
      `SERVER_IDENTITY is ${serverIdentity}, with its quotes: no call is signed for it; take them off, or unset it`,
    );
  if (readyWithout.length > 1 && readyWithout.includes('none'))
    problems.push(`READY_WITHOUT is "${readyWithout.join()}": expected "none" alone, or what may be missing`);
  if (maxBodyMemory < BODIES_IN_MEMORY * maxBodyBytes)
    problems.push(
      `MAX_BODY_MEMORY is "${maxBodyMemory}": expected at least four times MAX_BODY_BYTES (${maxBodyBytes})`,
    );
  return [
    ...problems,
    ...findListenProblems(configuration),
    ...findContradictions(configuration, variableOf),
    ...findUnshared(configuration),
  ];
}

function findListenProblems({ tlsCertFile, tlsKeyFile, listen, sharePort }: Configuration): string[] {
  if (listen !== undefined && (sharePort || (tlsCertFile ?? tlsKeyFile) !== undefined))
    return [
      'LISTEN is a Unix socket, which instances cannot share and which has no TLS: unset SHARE_PORT, TLS_CERT_FILE and ' +
        'TLS_KEY_FILE, or set HOST and PORT instead',
    ];
  if (tlsCertFile === undefined && tlsKeyFile === undefined) return [];
  if (tlsCertFile === undefined || tlsKeyFile === undefined)
    return ['one of TLS_CERT_FILE and TLS_KEY_FILE is set, expected both: set the other, or unset both'];
  try {
    readCertificate({ certFile: tlsCertFile, keyFile: tlsKeyFile });
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/**
 * Finds stores that each instance on a shared port would keep for itself. An invocation would then pass once in each, and a
 * revocation would hold in one of them alone. `GATE_REPLAY=off` says in so many words that calls may be repeated.
 */
function findUnshared(configuration: Configuration): string[] {
  const { sharePort, replayProtection, gateReplay, revocationStore, drsAdminToken, approvalsUrl } =
    configuration;
  if (!sharePort) return [];
  const remedies: string[] = [];
  if (replayProtection === 'memory') remedies.push('REPLAY_PROTECTION is "memory": set it to redis');
  if (gateReplay === 'memory')
    remedies.push('GATE_REPLAY is "memory": set it to redis, or to off if calls of the gate may be repeated');
  if (gateReplay === 'off' && approvalsUrl !== undefined)
    remedies.push('what APPROVALS_URL asks: set GATE_REPLAY to redis');
  if (revocationStore === 'file' || configuration.revocationStorePath !== undefined)
    remedies.push(
      'REVOCATION_STORE is "file": move the file to Redis (`drs-verify revocations import <file>`), and set it to redis',
    );
  // Without the admin endpoint nothing is revoked locally, and an empty store is the same everywhere.
  else if (revocationStore !== 'redis' && drsAdminToken !== undefined)
    remedies.push(
      'REVOCATION_STORE is "memory": set it to redis, or unset DRS_ADMIN_TOKEN and revoke by status list',
    );
  return remedies.map((remedy) => `SHARE_PORT is set, and instances do not share ${remedy}`);
}

/**
 * Finds variables that are set but empty, often because a template was filled with an unset variable. Treating them as
 * unset would silently trust anybody, or the word of agents.
 */
function findEmpty(env: Environment): string[] {
  return [...OPTIONS]
    .filter(([option, { restrictsTrust }]) => restrictsTrust && env[variableOf(option)]?.trim() === '')
    .map(
      ([option]) =>
        `${variableOf(option)} is empty, and restricts what is accepted: give it a value, or unset it`,
    );
}

/** What a gate on trial says at its start, and each hour. */
export const OBSERVES =
  'GATE_MODE is observe: the gate protects nobody, and lets pass what it would deny; set it to enforce, or unset it';

/**
 * Warnings about a valid configuration.
 *
 * @param isAnybodyMeant whether it was said in so many words that anybody may be a root principal
 */
export function warningsAbout(configuration: Configuration, isAnybodyMeant = false): string[] {
  const { drsAdminToken, replayProtection, gateReplay, serverIdentity } = configuration;
  const { trustedRoots, trustedRootsFile, gateMode, unstatedArguments } = configuration;
  const warnings = gateMode === 'observe' ? [OBSERVES] : [];
  if (unstatedArguments === 'allow')
    warnings.push(
      'UNSTATED_ARGUMENTS is "allow": a limit holds only for calls that state what it limits, and agents may leave it out; ' +
        'say what the tools do in TOOLS_FILE, and unset it',
    );
  if (!isAnybodyMeant && trustedRoots === undefined && trustedRootsFile === undefined)
    warnings.push(
      'neither TRUSTED_ROOTS nor TRUSTED_ROOTS_FILE is set: calls under a delegation by anybody are allowed, unless who asks ' +
        'checks the root principal; name the principals whose delegations count',
    );
  if (serverIdentity === undefined)
    warnings.push(
      'SERVER_IDENTITY is not set: /verify accepts calls that were signed for any tool server, and the gate refuses all ' +
        'calls; set it to the tool_server that calls are signed for, or to "any"',
    );
  else if (serverIdentity !== 'any' && !URL.canParse(serverIdentity))
    warnings.push(
      `SERVER_IDENTITY is "${serverIdentity}", and no URL or DID: only calls whose tool_server is this very text are accepted`,
    );
  const records: readonly unknown[] = [replayProtection, gateReplay];
  if (records.includes('redis') && records.includes('memory'))
    warnings.push(
      `REPLAY_PROTECTION is "${replayProtection}" and GATE_REPLAY is "${gateReplay}": other instances do not see the calls that ` +
        'were recorded in memory here, so each of them lets a call pass once more; set both to redis',
    );
  if (drsAdminToken !== undefined && drsAdminToken.length < SAFE_TOKEN_LENGTH)
    warnings.push(
      `DRS_ADMIN_TOKEN is shorter than ${SAFE_TOKEN_LENGTH} characters and may be guessed; ` +
        'make one with `openssl rand -base64 24`',
    );
  return warnings;
}

/** Warns of variables that are set and do nothing: whoever set them expects something. */
export function warningsAboutIdle(env: Environment, configuration: Configuration): string[] {
  const { replayProtection, gateReplay, revocationStore } = configuration;
  const isThere = (needed: string) =>
    needed === 'redis'
      ? [replayProtection, gateReplay, revocationStore].includes('redis')
      : configuration[needed as keyof Configuration] !== undefined;
  return [...OPTIONS].flatMap(([option, { needs }]) => {
    const name = variableOf(option);
    if ((env[name]?.trim() ?? '') === '') return [];
    if (option === 'port' && configuration.listen !== undefined)
      return ['PORT is set and does nothing: LISTEN takes its place'];
    if (needs === undefined || isThere(needs)) return [];
    const missing = needs === 'redis' ? 'no store is redis' : `${variableOf(needs)} is not set`;
    return [`${name} is set and does nothing: ${missing}`];
  });
}

/**
 * Warns if the limits together allow more memory than V8's heap may have. The process would then be killed while every single
 * limit is kept.
 *
 * @param heapBytes the limit of the heap
 */
export function warningsAboutMemory(configuration: Configuration, heapBytes: number): string[] {
  const { receiptCacheBytes, maxBodyMemory, replayMaxEntries, replayProtection, gateReplay } = configuration;
  const records = [replayProtection, gateReplay].filter((where) => where === 'memory').length;
  const replays = records * BYTES_PER_REPLAY_ENTRY * replayMaxEntries;
  const bytes = BASE_BYTES + receiptCacheBytes + maxBodyMemory + replays;
  if (bytes <= heapBytes) return [];
  const mib = (part: number) => `${Math.round(part / MIB)} MiB`;
  return [
    `the limits allow ${mib(bytes)} of memory (RECEIPT_CACHE_BYTES ${mib(receiptCacheBytes)}, MAX_BODY_MEMORY ` +
      `${mib(maxBodyMemory)}, REPLAY_MAX_ENTRIES ${mib(replays)}, and ${mib(BASE_BYTES)} for the rest), and the heap may ` +
      `have ${mib(heapBytes)}: lower them, or raise the limit (NODE_OPTIONS=--max-old-space-size, or the memory of the container)`,
  ];
}

/** Shows a value in an error message, without secrets. */
function show({ isSecret, isUrl }: Partial<Variable> = {}, value: string): string {
  if (isUrl) return JSON.stringify(printableUrl(value));
  return isSecret ? '(hidden)' : JSON.stringify(value);
}
