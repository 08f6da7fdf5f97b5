import type { Kind } from '../../protocol/options.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The name of an option's environment variable: `MAX_BODY_BYTES` for `maxBodyBytes`. */
export function variableOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['1', true],
  ['true', true],
  ['0', false],
  ['false', false],
]);

/** What the text of a variable stands for. One that stands for no value of its kind stays as it is, and is refused. */
export function valueOf(text: string, { form }: Kind<unknown>): unknown {
  switch (form) {
    case 'number':
      return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
    case 'flag':
      return FLAGS.get(text) ?? text;
    case 'list': {
      const items = text.split(',').map((item) => item.trim());
      return items.filter((item) => item !== '');
    }
    default:
      return text;
  }
}

/** Variables that were ours, or that the public DRS implementation has, and what they are called here. */
const FORMER: ReadonlyMap<string, string> = new Map([
  ['NONCE_STORE_BACKEND', 'REPLAY_PROTECTION'],
  ['NONCE_STORE_TTL_SECS', 'REPLAY_WINDOW_SECS'],
  ['NONCE_STORE_MAX_ENTRIES', 'REPLAY_MAX_ENTRIES'],
  ['LISTEN_ADDR', 'HOST and PORT'],
  ['DRS_REQUIRE_BINDING', 'REQUIRE_BINDING'],
  ['PROCESSES', 'SHARE_PORT'],
  ['MAX_BATCH', 'MAX_BODY_MEMORY'],
  ['MAX_BATCH_BYTES', 'MAX_BODY_MEMORY'],
  ['GATE_METHODS', 'GATE_PASS_METHODS'],
]);

/** Those with nothing in their place: whoever sets one counts on what nobody does. */
const NONE_HERE =
  /^(?:QUEUE_(?:TARGET|BURST)_MS|STORE_DIR|TSA_URL|S3_BUCKET|INSPECTOR|VERIFY_NATIVE|GATE_CHAIN_ONLY)$/;

/** Shorter names of ours are too close to names of other programs. */
const MIN_LENGTH = 8;

/** First words of our variables with which other programs begin theirs, such as `REDIS_PASSWORD` and `LOG_FORMAT`. */
const COMMON: ReadonlySet<string> = new Set(
  'HOST PORT LISTEN TLS LOG METRICS RATE MAX REQUEST WORKER REDIS HTTP HTTPS NO'.split(' '),
);

/** Variables that begin as ours do: of the command, of the gRPC library, and what Kubernetes sets for a service called `gate`. */
const OTHERS =
  /^DRS_(?:VERIFY_URL|ADMIN_URL|KEY_PASSPHRASE|COMMIT)$|^GRPC_(?:(?:NODE_)?(?:TRACE|VERBOSITY)|SSL_|DEFAULT_|EXPERIMENTAL_)|_(?:SERVICE_HOST|(?:SERVICE_)?PORT(?:_\w+)?)$/;

/**
 * Finds variables that look like ours and are none: in small letters, one typing error away, with a first word that only ours have (`GATE_POLICY`), that
 * were ours, of the public implementation, or with `_FILE` behind one that cannot come from a file. If `TRUSTED_ROOT` were ignored, for
 * example, the service would trust everybody.
 *
 * @param names the names of our variables, with those that name files
 */
export function findStrangers(env: Environment, names: readonly string[]): string[] {
  return Object.keys(env)
    .filter((name) => (env[name] ?? '').trim() !== '' && !names.includes(name))
    .flatMap((name) => problemWith(name, names) ?? []);
}

function problemWith(found: string, names: readonly string[]): string | null {
  const unfiled = found.replace(/_FILE$/, '');
  if (unfiled !== found && names.includes(unfiled)) {
    const fileable = names.filter((name) => names.includes(`${name}_FILE`));
    return (
      `${found} is set, and ${unfiled} cannot come from a file: set ${unfiled} itself ` +
      `(only ${fileable.join(', ')} can come from files)`
    );
  }
  if (NONE_HERE.test(found))
    return `${found} is not a variable of drs-verify, and there is none for it: unset it`;
  const meant =
    FORMER.get(found) ??
    names.find((name) => name.length >= MIN_LENGTH && isTypoOf(name, found.toUpperCase()));
  if (meant !== undefined)
    return `${found} is not a variable of drs-verify, expected ${meant}: rename it, or unset it`;
  const word = `${found.split('_', 1)[0]}_`;
  const beginsAsOurs = found.startsWith(word) && names.some((name) => name.startsWith(word));
  if (!beginsAsOurs || COMMON.has(word.slice(0, -1)) || OTHERS.test(found)) return null;
  return `${found} is not a variable of drs-verify (drs-verify serve --help lists them): rename it, or unset it`;
}

/** Whether a text is a name with one character too many, too few or another one, or with two neighbours swapped. */
export function isTypoOf(name: string, found: string): boolean {
  let start = 0;
  while (start < name.length && name[start] === found[start]) start++;
  const [wanted, came] = [name.slice(start), found.slice(start)];
  const isSwapped = wanted[0] === came[1] && wanted[1] === came[0] && wanted.slice(2) === came.slice(2);
  return (
    isSwapped || wanted.slice(1) === came.slice(1) || wanted === came.slice(1) || wanted.slice(1) === came
  );
}
