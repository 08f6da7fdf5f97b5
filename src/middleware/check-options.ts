import { isPassMethod } from '../gate/mcp.js';
import { isCommandPath } from '../protocol/claims.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';

/** The requirement for an option. */
interface Check {
  readonly test: (value: unknown) => boolean;
  readonly expected: string;
  /** Whether the option is required. */
  readonly required?: true;
}

const isFunction = (value: unknown) => typeof value === 'function';
const has = (method: string) => (value: unknown) =>
  typeof value === 'object' && value !== null && isFunction((value as Record<string, unknown>)[method]);
const isText = (value: unknown) => typeof value === 'string' && value !== '';
const isCount = (least: number) => (value: unknown) =>
  Number.isSafeInteger(value) && (value as number) >= least;
const isDid = (value: unknown) => typeof value === 'string' && DEFAULT_KEYS.publicKeyOf(value) !== null;
const isBoolean = (value: unknown) => typeof value === 'boolean';
const maxBodyBytes: Check = { test: isCount(1), expected: 'an integer of at least 1 (bytes)' };
const callback: Check = { test: isFunction, expected: 'a function' };
const seconds: Check = { test: isCount(0), expected: 'an integer of at least 0 (seconds)' };

const PROTECTION: Readonly<Record<string, Check>> = {
  verifier: { test: has('verify'), expected: 'what createVerifier() or new DrsClient() returns' },
  verifyUrl: { test: isHttpUrl, expected: 'an http or https URL of a service' },
  trustedRoots: {
    test: (value) => value === 'any' || (Array.isArray(value) && value.length > 0 && value.every(isDid)),
    expected: "an array of did:keys of Ed25519 keys, or 'any' to trust everybody",
    required: true,
  },
  serverIdentity: {
    test: isText,
    expected:
      "this server's did:key or URL as callers sign for it, or 'any' to take calls for other servers too",
    required: true,
  },
  replayStore: {
    test: (value) => value === 'none' || has('use')(value),
    expected: "a store such as createMemoryReplayStore() returns, or 'none' to let calls be repeated",
    required: true,
  },
  replayScope: { test: isText, expected: 'a non-empty string' },
  replayWindowSecs: seconds,
  clockSkewSecs: seconds,
  optional: { test: isBoolean, expected: 'true or false' },
  onToolCall: callback,
  onRefused: callback,
  eventSink: { test: has('write'), expected: 'a stream, or an object with a write function' },
  onError: callback,
};

const ROUTE: Readonly<Record<string, Check>> = {
  tool: {
    test: (value) => isText(value) || isFunction(value),
    expected: "the name of the tool that this route serves, a function of the request, or 'any'",
  },
  command: {
    test: (value) => isCommandPath(value) || isFunction(value),
    expected: 'a path such as "/tools/weather" without a slash at its end, or a function of the request',
  },
  parameters: { test: isFunction, expected: 'a function of the request that gives an object of strings' },
  bindingMode: {
    test: (value) => value === 'enforced' || value === 'report' || value === 'off',
    expected: '"enforced", "report" or "off"',
  },
  maxBodyBytes,
};

/** The options of each kind of protection. */
const OPTIONS = {
  http: { ...PROTECTION, ...ROUTE },
  express: {
    ...PROTECTION,
    ...ROUTE,
    errors: {
      test: (value: unknown) => value === 'answer' || value === 'next',
      expected: '"answer" or "next"',
    },
  },
  mcp: {
    ...PROTECTION,
    methods: {
      test: (value: unknown) => value === 'all' || value === 'tools',
      expected: '"all", or "tools" to check calls of tools alone',
    },
    protect: { test: isFunction, expected: 'a function of a tool name' },
    askAt: { test: isHttpUrl, expected: 'an http or https URL' },
    passMethods: {
      test: (value: unknown) => Array.isArray(value) && value.every(isPassMethod),
      expected: "an array of names of methods such as 'acme/search', and not 'tools/call'",
    },
  },
  a2a: { ...PROTECTION, maxBodyBytes },
} satisfies Record<string, Readonly<Record<string, Check>>>;

/**
 * Checks the options that a user of this library passes.
 *
 * @returns a copy of the own members, without a prototype: what others add to `Object.prototype` is no option
 * @throws TypeError with all problems, one per line
 */
export function checkOptions<T extends object>(kind: keyof typeof OPTIONS, options: T): T {
  const checks: Readonly<Record<string, Check>> = OPTIONS[kind];
  if (typeof options !== 'object' || (options as unknown) === null) {
    throw new TypeError(`options is ${show(options)}, expected an object`);
  }
  const given = new Map<string, unknown>(Object.entries(options).filter(([, value]) => value !== undefined));
  const problems: string[] = [];
  for (const name of given.keys()) {
    if (!Object.hasOwn(checks, name)) {
      problems.push(`${name} is not an option here, expected one of ${Object.keys(checks).join(', ')}`);
    }
  }
  for (const [name, { test, expected, required }] of Object.entries(checks)) {
    const isGiven = given.has(name);
    if (isGiven ? !test(given.get(name)) : required === true) {
      problems.push(`${name} is ${isGiven ? show(given.get(name)) : 'missing'}, expected ${expected}`);
    }
  }
  if (given.has('verifier') === given.has('verifyUrl')) {
    problems.push(
      'give exactly one of verifier (createVerifier() or a DrsClient) and verifyUrl (the address of a service)',
    );
  }
  if ('tool' in checks && !given.has('tool') && !given.has('command')) {
    problems.push(
      "say which calls this route serves: tool, command, or both; tool: 'any' leaves it to the handler",
    );
  }
  if (problems.length > 0) throw new TypeError(problems.join('\n'));
  return Object.assign(Object.create(null) as T, Object.fromEntries(given));
}

/** Whether a value is an http or https URL, as text or as an object. */
export function isHttpUrl(value: unknown): boolean {
  if (typeof value !== 'string' && !(value instanceof URL)) return false;
  return URL.canParse(String(value)) && /^https?:$/.test(new URL(value).protocol);
}

function show(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (value instanceof Promise) return 'a promise (await it)';
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? JSON.stringify(value) : 'an object';
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
