import { z } from 'zod';
import { OptionsError, verifierOptions } from '../verifier/options.js';

const count = (least: number, most = Number.MAX_SAFE_INTEGER) => z.number().int().min(least).max(most);

/** Options of the service: those of the verifier and its own. Each is read from the environment. */
const serviceOptions = verifierOptions.extend({
  /** The address to listen on. Anything but a loopback address lets the network ask for verdicts. */
  host: z.string().min(1).default('127.0.0.1'),
  /** The port to listen on; 0 takes a free one and logs it. */
  port: count(0, 65_535).default(8080),
  /** The largest request body of `/verify`, in bytes. */
  maxBodyBytes: count(1, 256 * 1024 * 1024).default(1024 * 1024),
  /** The most requests that wait for a verdict; above it `/verify` answers 503. Bounds memory and delay. */
  maxPending: count(1).default(4096),
  /**
   * For so many µs after the last answer the event loop looks for the next request without sleeping, so that a lone
   * client waits a third less; 0 lets it sleep at once.
   */
  busyPollMicrosecs: count(0, 100_000).default(200),
  /** The bearer token of `/admin/revoke`, which whoever holds it can call. Unset, the endpoint is off. */
  drsAdminToken: z.string().min(1).optional(),
  /** Requests a second for each client address; 0 is no limit. */
  rateLimitPerIp: count(0).default(0),
  /** Requests a second for all clients together; 0 is no limit. */
  rateLimitGlobal: count(0).default(0),
  /** The least severe message that is logged. */
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
});

/** The configuration of the service. */
export type Configuration = z.output<typeof serviceOptions>;

const SECRETS: ReadonlySet<string> = new Set(['drsAdminToken', 'redisUrl']);

/** The environment variable of an option: `maxBodyBytes` is `MAX_BODY_BYTES`. */
export function variableOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** The environment variables that are read. */
export const VARIABLES: readonly string[] = Object.keys(serviceOptions.shape).map(variableOf);

/**
 * Reads the configuration. An empty variable counts as unset; lists are comma-separated; numbers take no unit.
 *
 * @throws OptionsError naming every problem, none of them with the value of a secret
 * @example readConfiguration({ PORT: '8081' }).port; // 8081
 */
export function readConfiguration(env: Readonly<Record<string, string | undefined>>): Configuration {
  const options: Record<string, unknown> = {};
  for (const [option, schema] of Object.entries(serviceOptions.shape)) {
    const text = env[variableOf(option)]?.trim();
    if (text !== undefined && text !== '') options[option] = read(text, schema);
  }
  const { success, data, error } = serviceOptions.safeParse(options);
  if (success) return data;
  throw new OptionsError(
    error.issues.map(({ path, message }) => {
      const option = String(path[0]);
      const found = SECRETS.has(option) ? '(hidden)' : JSON.stringify(env[variableOf(option)]);
      return `${variableOf(option)} is ${found}: ${message}`;
    }),
  );
}

/** The first reading of a text that the option accepts: as it is, as a number, as a list. */
function read(text: string, schema: z.ZodType): unknown {
  const number = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
  const list = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  for (const reading of [text, number, list]) if (schema.safeParse(reading).success) return reading;
  // No reading fits; the one of the right type gives the most telling message.
  const wantsList = schema.safeParse([]).error?.issues.some(({ code }) => code !== 'invalid_type') === true;
  return wantsList ? list : number;
}
