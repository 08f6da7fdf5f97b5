import { z } from 'zod';
import { count, findContradictions, OptionsError, verifierOptions } from '../../verifier/options.js';
import { isChainCommand, isPassMethod } from '../../gate/index.js';
import { readProxyTrust } from '../http/client-address.js';
import { isSigningSeed } from '../routes/context-token.js';
import { findFileless, findForeign, findMisspelt, variableOf } from './environment.js';
import { readCertificate } from '../http/certificate.js';
import { unixPathOf, type ListenAddress } from '../http/listen-address.js';
import { readSecretFiles, SECRET_FILES } from './secret-files.js';
import { printableUrl } from './printable-url.js';
import { findUnshareable } from './unshareable.js';

/** The schema of a text that a function reads. The function returns the value, or what is wrong with the text. */
const parsed = <T extends object>(read: (text: string) => T | { readonly problem: string }) =>
  z.string().transform((text, context): T => {
    const value = read(text);
    if (!('problem' in value)) return value;
    context.addIssue({ code: 'custom', message: value.problem, input: text });
    return z.NEVER;
  });

const origin = z.string().refine((text) => URL.canParse(text) && new URL(text).origin === text, {
  error: ({ input }) => `${JSON.stringify(input)} is not an origin such as https://app.example`,
});

/** Options of the service: the verifier's and its own. Each is read from an environment variable. */
const serviceOptions = verifierOptions.extend({
  /** The address to listen on. With anything but a loopback address, other machines can send requests. */
  host: z.string().min(1).default('127.0.0.1'),
  /** The port to listen on; 0 chooses a free port and logs it. */
  port: count(0, 65_535).default(8080),
  /** A Unix socket to listen on instead of `host` and `port`: `unix:/run/drs/verify.sock`. */
  listen: parsed(unixPathOf).optional(),
  /** The permissions of the socket's file. Whoever may write to it can ask for verdicts. */
  listenMode: z
    .string()
    .regex(/^0?[0-7]{3}$/, 'expected three octal digits, such as 660')
    .default('660'),
  /** A file with a certificate and its chain, in PEM. With it, all TCP ports use TLS: HTTPS, and gRPC over TLS. */
  tlsCertFile: z.string().min(1).optional(),
  /** The file with the certificate's private key. */
  tlsKeyFile: z.string().min(1).optional(),
  /**
   * The proxies whose `X-Forwarded-For` is trusted: how many, or their networks. Anybody who can reach the service
   * without passing that many proxies, or from such a network, can choose the address under which it is counted.
   */
  trustProxy: parsed(readProxyTrust).optional(),
  /** A port for gateways that ask over gRPC; 0 chooses a free one. Anybody who reaches it can ask. Unset: off. */
  grpcPort: count(0, 65_535).optional(),
  /**
   * The protocol of a gRPC question if its gateway names none (`context_extensions.drs_protocol`). The wrong protocol
   * checks something else: `mcp` passes everything but tool calls.
   */
  grpcProtocol: z.enum(['http', 'mcp', 'a2a']).default('mcp'),
  /** Processes that share the port, under one supervisor. 1 is a single process without one. */
  processes: count(1, 256).default(1),
  /** Lets other processes of the same user listen on the port too. The kernel distributes connections among them. */
  sharePort: z.boolean().default(false),
  /** The HTTP server: uWebSockets.js (`uws`) or `node:http` (`node`). `auto`: `uws` if it runs here, else `node`. */
  frontEnd: z.enum(['auto', 'uws', 'node']).default('auto'),
  /** The largest request body of `/verify`, in bytes. */
  maxBodyBytes: count(1, 256 * 1024 * 1024).default(1024 * 1024),
  /** Whether loaded binaries are compared with those recorded at packing; `off` for binaries you built yourself. */
  verifyNative: z.enum(['on', 'off']).default('on'),
  /** Maximum number of requests that wait for a verdict; above it `/verify` answers 503. Bounds memory. */
  maxPending: count(1).default(4096),
  /** Milliseconds that a request may wait for the main thread in a burst; one that has waited longer gets a 503. */
  queueBurstMs: count(1, 60_000).default(180),
  /** The same in a lasting overload, in which waiting only makes all answers later. */
  queueTargetMs: count(1, 60_000).default(100),
  /**
   * Bytes for bodies that are being read, parsed or waiting for a verdict, including their parsed values; above it
   * `/verify` answers 503. At least four times `maxBodyBytes`. Default: that minimum or 128 MiB, whichever is larger.
   */
  maxBodyMemory: count(1024).default(128 * 1024 * 1024),
  /** Seconds within which the body of a request must arrive. A longer time lets slow clients hold memory for longer. */
  requestTimeoutSecs: count(1, 3600).default(10),
  /** Maximum number of connections; more are closed at once. Default: as many as the limit of open files allows. */
  maxConnections: count(1).optional(),
  /**
   * Seconds between the signal to stop and the drain. In this time `/readyz` fails and everything else is served, so
   * that load balancers notice.
   */
  shutdownDelaySecs: count(0, 3600).default(0),
  /**
   * What the service can be ready without. Without `replay`, `/readyz` answers 200 although every call that needs the
   * record of used invocations is refused.
   */
  readyWithout: z
    .array(z.enum(['replay']))
    .min(1)
    .optional(),
  /** Seconds that open requests have to finish before the process ends. */
  shutdownGraceSecs: count(1, 3600).default(10),
  /** Origins of web pages that may send requests. A listed page can ask for verdicts from its visitors' networks. */
  allowedOrigins: z.array(origin).min(1).optional(),
  /**
   * Microseconds for which the event loop keeps polling after the last answer instead of sleeping. A single client then
   * waits a third less; 0 turns this off.
   */
  busyPollMicrosecs: count(0, 100_000).default(200),
  /** The bearer token of `/admin/revoke`. Everybody who has it can revoke. If unset, the endpoint is off. */
  drsAdminToken: z
    .string()
    .regex(/^[!-~]+$/, 'no request can carry it: expected printable ASCII without white space')
    .optional(),
  /**
   * Where the gate records used invocations: in this process, or in Redis for all instances. With `off`, an allowed
   * call can be repeated until its delegation expires.
   */
  gateReplay: z.enum(['memory', 'redis', 'off']).default('memory'),
  /**
   * The only command of `/gate/chain`, which does not check a call's arguments: for proxies that cannot send a body. If
   * unset, the endpoint is off.
   */
  gateChainOnly: z
    .string()
    .refine(
      isChainCommand,
      'expected the command of the calls, such as /mcp/tools/call; unset it to turn /gate/chain off',
    )
    .optional(),
  /**
   * The file with the routes of `http`: which method and path call which tool, and with which arguments. `any`: nothing
   * of a request but its body is compared, so a call that was signed for one path passes on every other.
   */
  gateRoutes: z.string().min(1).optional(),
  /** `tools`: of the methods of MCP only `tools/call` is checked; everybody can read resources, prompts and tasks. */
  gateMethods: z.enum(['all', 'tools']).default('all'),
  /** MCP methods that pass besides those of the protocol. Nothing about them is checked, and nothing need be signed. */
  gatePassMethods: z
    .array(
      z.string().refine(isPassMethod, 'expected names of methods such as acme/search, and not tools/call'),
    )
    .min(1)
    .optional(),
  /**
   * The key that signs the context of allowed calls: an Ed25519 seed in base64url. Everybody who has it can make a tool
   * server believe that this gate allowed a call. If unset, contexts are not signed.
   */
  gateSigningKey: z
    .string()
    .refine(
      isSigningSeed,
      'expected 32 bytes in base64url, such as the member "d" of a file by `drs-verify keygen`',
    )
    .optional(),
  /** Requests per second for each client (an IPv4 address, an IPv6 /64) and class of endpoints; 0 is no limit. */
  rateLimitPerIp: count(0).default(0),
  /** Requests per second for all clients together, for each class of endpoints; 0 is no limit. */
  rateLimitGlobal: count(0).default(0),
  /** The least severe message that is logged. */
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  /** Which invalid verdicts are logged: all, ten per second, or none. Tokens and arguments are never logged. */
  logRefusals: z.enum(['all', 'sampled', 'off']).default('sampled'),
  /** A file that gets a JSON line for each verdict, or `-` for standard output. It records who called which tool. */
  decisionLog: z.string().min(1).optional(),
  /** A separate address (`host:port`) for `/metrics`, which is then not served on `host` and `port`. */
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

/**
 * The host and the port of an address such as `127.0.0.1:9464` or `[::1]:9464`; `null` if the text is not an address.
 */
export function addressOf(text: string): { readonly host: string; readonly port: number } | null {
  const [, ipv6, name, digits] = /^(?:\[([\da-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  return port <= 65_535 ? { host: (ipv6 ?? name) as string, port } : null;
}

/**
 * Reads the configuration. An empty variable counts as unset, except those that say whom to trust: there it is an
 * error. Lists are comma-separated. Numbers have no unit.
 *
 * @throws OptionsError with all problems; no message contains the value of a secret
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
  const problems = [
    ...findMisspelt(env, VARIABLES),
    ...findFileless(env, VARIABLES),
    ...findEmpty(env),
    ...files.problems,
  ];
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
    problems.push(
      ...findListenProblems(data),
      ...findContradictions(data, variableOf),
      ...findUnshareable(data),
    );
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

function findListenProblems(configuration: Configuration): string[] {
  const { tlsCertFile, tlsKeyFile, listen, metricsAddr, processes, sharePort } = configuration;
  if (listen !== undefined && (processes > 1 || sharePort))
    return [
      'LISTEN is a Unix socket, which processes cannot share: unset PROCESSES and SHARE_PORT, or set HOST and PORT instead',
    ];
  if (tlsCertFile === undefined && tlsKeyFile === undefined) return [];
  if (tlsCertFile === undefined || tlsKeyFile === undefined)
    return ['one of TLS_CERT_FILE and TLS_KEY_FILE is set, expected both: set the other, or unset both'];
  if (listen !== undefined && metricsAddr === undefined)
    return [
      'TLS_CERT_FILE is set and LISTEN is a Unix socket, which has no TLS: unset one of them, or set METRICS_ADDR',
    ];
  try {
    readCertificate({ certFile: tlsCertFile, keyFile: tlsKeyFile });
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/** The address on which `/verify` is served. */
export function listenAddressOf(configuration: Configuration): ListenAddress {
  const { host, port, sharePort: isShared, listen, listenMode } = configuration;
  if (listen === undefined) return { kind: 'tcp', host, port, isShared };
  return { kind: 'unix', path: listen.path, mode: parseInt(listenMode, 8) };
}

// If one of these is unset, any root, any tool server or any list issuer is accepted.
const NAMES_WHOM_TO_TRUST = ['trustedRoots', 'serverIdentity', 'statusListIssuer'];

/**
 * Finds variables that are set but empty, often because a template was filled with an unset variable. Treating them as
 * unset would silently trust anybody.
 */
function findEmpty(env: Readonly<Record<string, string | undefined>>): string[] {
  return NAMES_WHOM_TO_TRUST.map(variableOf)
    .filter((name) => env[name]?.trim() === '')
    .map((name) => `${name} is empty: expected whom to trust; unset it to trust anybody`);
}

/** Warnings about a valid configuration. */
export function warningsAbout(
  env: Readonly<Record<string, string | undefined>>,
  { drsAdminToken, replayProtection, gateReplay, serverIdentity }: Configuration,
): string[] {
  const warnings = findForeign(env);
  if (serverIdentity === undefined)
    warnings.push(
      'SERVER_IDENTITY is not set: /verify accepts calls that were signed for any tool server, and the gate refuses all ' +
        'calls; set it to the tool_server that calls are signed for, or to "any"',
    );
  if (replayProtection === 'redis' && gateReplay === 'memory')
    warnings.push(
      'REPLAY_PROTECTION is "redis" and GATE_REPLAY is "memory": other instances do not see which calls this gate has ' +
        'allowed, so each of them allows a call once more; set GATE_REPLAY=redis too',
    );
  if (replayProtection === 'memory' && gateReplay === 'redis')
    warnings.push(
      'GATE_REPLAY is "redis" and REPLAY_PROTECTION is "memory": other instances do not see what /verify has accepted ' +
        'here, so each of them accepts a call once more; set REPLAY_PROTECTION=redis too',
    );
  if (drsAdminToken !== undefined && drsAdminToken.length < SAFE_TOKEN_LENGTH)
    warnings.push(
      `DRS_ADMIN_TOKEN is shorter than ${SAFE_TOKEN_LENGTH} characters and may be guessed; ` +
        'make one with `openssl rand -base64 24`',
    );
  return warnings;
}

/** Shows a value in an error message, without secrets. */
function show(option: string, value: string): string {
  if (SECRETS.has(option)) return '(hidden)';
  return JSON.stringify(URLS.has(option) ? printableUrl(value) : value);
}

const FLAGS: Readonly<Record<string, boolean>> = { '1': true, true: true, '0': false, false: false };

/**
 * Reads a text as the first of these that the option accepts: the text itself, a flag, a number, a list. If it accepts
 * none, the result is the one of the right type, which gives the best error message.
 */
function read(text: string, schema: z.ZodType): unknown {
  const number = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
  const list = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  const readings = [text, FLAGS[text], number, list].filter((reading) => reading !== undefined);
  const issuesOf = (reading: unknown) => schema.safeParse(reading).error?.issues ?? [];
  const isRightType = (reading: unknown) => issuesOf(reading).every(({ code }) => code !== 'invalid_type');
  return readings.find((reading) => issuesOf(reading).length === 0) ?? readings.find(isRightType) ?? number;
}
