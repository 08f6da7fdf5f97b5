import { z } from 'zod';
import { findContradictions, OptionsError, verifierOptions } from '../engine/options.js';
import { isSigningSeed } from './context-token.js';
import { findForeign, findMisspelt, variableOf } from './environment.js';
import { readSecretFiles, SECRET_FILES } from './secret-files.js';
import { printableUrl } from './printable-url.js';

const count = (least: number, most = Number.MAX_SAFE_INTEGER) => z.number().int().min(least).max(most);

const origin = z.string().refine((text) => URL.canParse(text) && new URL(text).origin === text, {
  error: ({ input }) => `${JSON.stringify(input)} is not an origin such as https://app.example`,
});

/** Options of the service: those of the verifier and its own. Each is read from the environment. */
const serviceOptions = verifierOptions.extend({
  /** The address to listen on. Anything but a loopback address lets the network ask for verdicts. */
  host: z.string().min(1).default('127.0.0.1'),
  /** The port to listen on; 0 takes a free one and logs it. */
  port: count(0, 65_535).default(8080),
  /** What speaks HTTP: uWebSockets.js, `node:http`, or the first where it runs and the second elsewhere. */
  frontEnd: z.enum(['auto', 'uws', 'node']).default('auto'),
  /** The largest request body of `/verify`, in bytes. */
  maxBodyBytes: count(1, 256 * 1024 * 1024).default(1024 * 1024),
  /** Whether the binaries that are loaded are compared with those recorded at packing; `off` for one's own builds. */
  verifyNative: z.enum(['on', 'off']).default('on'),
  /** The most requests that wait for a verdict; above it `/verify` answers 503. Bounds memory. */
  maxPending: count(1).default(4096),
  /** Milliseconds that a request may wait for its turn; where it would be more, `/verify` answers 503 at once. */
  queueTargetMs: count(1, 60_000).default(20),
  /**
   * Bytes for bodies that are being read, parsed or waiting for a verdict, with what is parsed of them; above it
   * `/verify` answers 503. At least, and by default where that is more than 128 MiB, four times `maxBodyBytes`.
   */
  maxBodyMemory: count(1024).default(128 * 1024 * 1024),
  /** Seconds within which the body of a request must have come. More gives slow clients more of `maxBodyMemory`. */
  requestTimeoutSecs: count(1, 3600).default(10),
  /** The most connections; more are closed at once. By default what the limit of open files allows. */
  maxConnections: count(1).optional(),
  /** Seconds between the signal to stop and the drain: `/readyz` fails, all else is served, so balancers notice. */
  shutdownDelaySecs: count(0, 3600).default(0),
  /** Seconds that what is in flight has to be answered before the process ends. */
  shutdownGraceSecs: count(1, 3600).default(10),
  /** Origins of web pages that may call. A page that is listed can ask for verdicts in its visitors' network. */
  allowedOrigins: z.array(origin).min(1).optional(),
  /**
   * For so many µs after the last answer the event loop looks for the next request without sleeping, so that a lone
   * client waits a third less; 0 lets it sleep at once.
   */
  busyPollMicrosecs: count(0, 100_000).default(200),
  /** The bearer token of `/admin/revoke`, which whoever holds it can call. Unset, the endpoint is off. */
  drsAdminToken: z
    .string()
    .regex(/^[!-~]+$/, 'no request can carry it: expected printable ASCII without white space')
    .optional(),
  /**
   * Where the gate records used invocations: in this process, or in Redis for all instances. `off`: a call that was allowed
   * can be repeated for as long as its delegation lives.
   */
  gateReplay: z.enum(['memory', 'redis', 'off']).default('memory'),
  /** `true` opens `/gate/chain`, where nothing ties a call to its arguments: for proxies that cannot send a body. */
  gateChainOnly: z.boolean().default(false),
  /**
   * Signs the context of allowed calls: an Ed25519 seed, base64url. Whoever has it can make a tool server believe that
   * this gate allowed a call. Unset, contexts are not signed.
   */
  gateSigningKey: z
    .string()
    .refine(
      isSigningSeed,
      'expected 32 bytes in base64url, such as the member "d" of a file by `drs-verify keygen`',
    )
    .optional(),
  /** Requests a second for each client (an IPv4 address, an IPv6 /64) and class of endpoints; 0 is no limit. */
  rateLimitPerIp: count(0).default(0),
  /** Requests a second for all clients together, for each class of endpoints; 0 is no limit. */
  rateLimitGlobal: count(0).default(0),
  /** The least severe message that is logged. */
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  /** Which verdicts that were not valid are logged: all, ten in a second, or none. Never tokens or arguments. */
  logRefusals: z.enum(['all', 'sampled', 'off']).default('sampled'),
  /** A file for a JSON line about each verdict, or `-` for standard output. It tells who called which tool. */
  decisionLog: z.string().min(1).optional(),
  /** Another address, as `host:port`, for `/metrics`, which is then no longer served on `host` and `port`. */
  metricsAddr: z
    .string()
    .refine((text) => addressOf(text) !== null, {
      error: 'expected an address and a port, such as 127.0.0.1:9464 or [::1]:9464',
    })
    .optional(),
  /** Whether `/admin` is served on `metricsAddr` instead, so that callers of `/verify` cannot reach it. */
  adminOnMetricsAddr: z.boolean().default(false),
});

/** The configuration of the service. */
export type Configuration = z.output<typeof serviceOptions>;

const SECRETS: ReadonlySet<string> = new Set(['drsAdminToken', 'gateSigningKey']);
const URLS: ReadonlySet<string> = new Set(['statusListBaseUrl', 'redisUrl']);
const BODIES_IN_MEMORY = 4;
const SAFE_TOKEN_LENGTH = 16;

/** The environment variables that are read. */
export const VARIABLES: readonly string[] = [
  ...Object.keys(serviceOptions.shape).map(variableOf),
  ...SECRET_FILES.keys(),
];

/** The host and the port of an address such as `127.0.0.1:9464` or `[::1]:9464`; `null` where it is none. */
export function addressOf(text: string): { readonly host: string; readonly port: number } | null {
  const [, ipv6, name, digits] = /^(?:\[([\da-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  return port <= 65_535 ? { host: (ipv6 ?? name) as string, port } : null;
}

/**
 * Reads the configuration. An empty variable counts as unset, but for those that name whom to trust; lists are
 * comma-separated; numbers take no unit.
 *
 * @throws OptionsError naming every problem, none of them with the value of a secret
 * @example readConfiguration({ PORT: '8081' }).port; // 8081
 */
export function readConfiguration(env: Readonly<Record<string, string | undefined>>): Configuration {
  const options: Record<string, unknown> = {};
  const files = readSecretFiles(env);
  for (const [option, schema] of Object.entries(serviceOptions.shape)) {
    const text = files.secrets.get(option) ?? env[variableOf(option)]?.trim();
    if (text !== undefined && text !== '') options[option] = read(text, schema);
  }
  if (options['maxBodyMemory'] === undefined && typeof options['maxBodyBytes'] === 'number')
    options['maxBodyMemory'] = Math.max(128 * 1024 * 1024, BODIES_IN_MEMORY * options['maxBodyBytes']);
  const { success, data, error } = serviceOptions.safeParse(options);
  const problems = [...findMisspelt(env, VARIABLES), ...findEmpty(env), ...files.problems];
  if (success) {
    const { maxBodyBytes, maxBodyMemory } = data;
    if (data.statusListIssuer !== undefined && data.statusListBaseUrl === undefined)
      problems.push(
        'STATUS_LIST_ISSUER is set and there is no list to check: set STATUS_LIST_BASE_URL, or unset STATUS_LIST_ISSUER',
      );
    if (data.adminOnMetricsAddr && data.metricsAddr === undefined)
      problems.push('ADMIN_ON_METRICS_ADDR is set and METRICS_ADDR is not: set both, or neither');
    if (maxBodyMemory < BODIES_IN_MEMORY * maxBodyBytes)
      problems.push(
        `MAX_BODY_MEMORY is "${maxBodyMemory}": expected at least four times MAX_BODY_BYTES (${maxBodyBytes})`,
      );
    problems.push(...findContradictions(data, variableOf));
    if (problems.length === 0) return data;
  } else {
    for (const { path, message } of error.issues) {
      const option = String(path[0]);
      const variable = files.secrets.has(option) ? `${variableOf(option)}_FILE` : variableOf(option);
      problems.push(
        `${variable} is ${show(option, files.secrets.get(option) ?? env[variableOf(option)] ?? '')}: ${message}`,
      );
    }
  }
  throw new OptionsError(problems);
}

// Without these, anybody is trusted, or a call for anybody taken.
const NAMES_WHOM_TO_TRUST = ['trustedRoots', 'serverIdentity', 'statusListIssuer'];

/** Variables that are there and empty, most often because another one in a template was not: left alone, they open the door. */
function findEmpty(env: Readonly<Record<string, string | undefined>>): string[] {
  return NAMES_WHOM_TO_TRUST.map(variableOf)
    .filter((name) => env[name]?.trim() === '')
    .map((name) => `${name} is empty: expected whom to trust; unset it to trust anybody`);
}

/** What a configuration that works should still be told about. */
export function warningsAbout(
  env: Readonly<Record<string, string | undefined>>,
  { drsAdminToken }: Configuration,
): string[] {
  const warnings = findForeign(env);
  if (drsAdminToken !== undefined && drsAdminToken.length < SAFE_TOKEN_LENGTH)
    warnings.push(
      `DRS_ADMIN_TOKEN is shorter than ${SAFE_TOKEN_LENGTH} characters and may be guessed; ` +
        'make one with `openssl rand -base64 24`',
    );
  return warnings;
}

/** A value as it may be printed. */
function show(option: string, value: string): string {
  if (SECRETS.has(option)) return '(hidden)';
  return JSON.stringify(URLS.has(option) ? printableUrl(value) : value);
}

const FLAGS: Readonly<Record<string, boolean>> = { '1': true, true: true, '0': false, false: false };

/** The first reading of a text that the option accepts: as it is, as a flag, as a number, as a list. */
function read(text: string, schema: z.ZodType): unknown {
  const number = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
  const list = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  for (const reading of [text, FLAGS[text], number, list])
    if (reading !== undefined && schema.safeParse(reading).success) return reading;
  // No reading fits; the one of the right type gives the most telling message.
  const wantsList = schema.safeParse([]).error?.issues.some(({ code }) => code !== 'invalid_type') === true;
  return wantsList ? list : number;
}
