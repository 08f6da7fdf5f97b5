import type { Random } from './random.js';

/** JSON texts of every type, and texts that parsers read differently. */
export const ODD: readonly string[] = [
  ...['null', 'true', 'false', '0', '-0', '1', '-1', '1.0', '1.5', '1e0', '1e400', '-1e400', '1e-400'],
  ...['9007199254740991', '9007199254740992', '9007199254740993', '9007199254740993.0'],
  ...['0.9007199254740993e16', '1E30', '333333333.33333329', '""', '"x"', '"*"', '"1"', '"true"'],
  ...['"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '[]', '["*"]', '["x"]', '[1]', '[null]', '[[]]'],
  ...['["search",5]', '{}', '{"a":1}', '{"a":1,"a":1}', '{"toString":null}'],
  '{"0":"search","length":1}',
];

export const TOOLS = ['search', 'fetch', 'delete', '*', 'constructor', ''];
const CLASSES = ['public', 'private', '*', '__proto__'];
const RESOURCES = [
  ...['file:///data/*', 'file:///data/a', 'file:///data/a/*', 'file:///data/a/b', 'file:///*'],
  ...['https://x.example/*', 'https://x.example/a?b=c', '/*', '*', 'a*'],
];
/** Resources that begin like an allowed one but mean another, or seem to. */
export const ODD_RESOURCES = [
  ...['file:///data/../etc/passwd', 'file:///data/./a', 'file:///data/.%2E/etc'],
  ...['file:///data/%2e%2E/etc', 'file:///data/%2e', 'file:///data/..', 'file:///data/..?q'],
  ...['file:///data/..#f', 'file:///data/a?x=../..', 'file:///data/..;x/etc', 'file:///data/..%2fetc'],
  ...['file:///data/%252e%252e/etc', 'file:///data/...', 'file:///data/.a'],
  ...['file:///data/.\t./etc/passwd', 'file:///data/.\n./etc/passwd', 'file:///data/a b'],
  ...['file:///data/\u007f', 'file:///data/\u0000', 'file:///data/\u00a0', 'file:///data\\..\\etc'],
  ...['file:///data/..\\etc', 'file:///data/', 'file:///data', 'file:///data/*/a', 'file:///data/../*'],
  ...['FILE:///data/a', 'file:///data//a', '/', '', '..'],
];

const COSTS = ['0', '0.5', '1', '5', '5.0', '1e1', '1e300'];
const TOTALS = ['0', '0.3', '1', '5', '1e-7', '0.0000019', '1e9', '999999999.9999999'];
const DELEGATIONS = ['0', '1', '1', '2', '3', '16', '2e1', '9007199254740991'];
const CALLS = ['0', '1', '10', '1e1', '10.0', '9007199254740991'];
const EXTRA = [
  ...['"eu"', '"us"', '["a","b"]', '["b","a"]', '{"a":1,"b":[2]}', '{"b":[2.0],"a":1}', '1', '1.0'],
  ...['null', '9007199254740993', '9007199254740992'],
];

const list = (random: Random, items: readonly string[], probability: number) =>
  JSON.stringify(random.shuffled(random.some(items, probability)));

/**
 * For each known policy member: values of the right type, and the argument that it limits. One that is rare is in few
 * policies, since it makes many a chain or call invalid.
 */
export const POLICY: Readonly<
  Record<
    string,
    {
      value: (random: Random) => string;
      arg?: string;
      argValue?: (random: Random) => string;
      isRare?: true;
    }
  >
> = {
  allowed_tools: {
    value: (random) => list(random, TOOLS, random.chance(0.5) ? 0.7 : 0.3),
    arg: 'tool',
    argValue: (random) => JSON.stringify(random.pick(TOOLS)),
  },
  max_cost_usd: {
    value: (random) => random.pick(COSTS),
    arg: 'estimated_cost_usd',
    argValue: (random) =>
      random.pick([
        ...['0', '0.5', '1', '5', '5.000000000000001', '-0', '1e1'],
        ...[
          '1e-7',
          '0.0000019',
          '0.3',
          '0.30000000000000004',
          '0.30000000000000001',
          '1e9',
          '1000000000.0000001',
        ],
      ]),
  },
  // Limits the same argument as max_cost_usd.
  max_total_cost_usd: { value: (random) => random.pick(TOTALS), isRare: true },
  approve_tools: { value: (random) => list(random, TOOLS, 0.2), isRare: true },
  max_calls: { value: (random) => random.pick(CALLS) },
  max_delegations: { value: (random) => random.pick(DELEGATIONS), isRare: true },
  pii_access: {
    value: (random) => String(random.chance(0.5)),
    arg: 'pii_access',
    argValue: (random) => String(random.chance(0.3)),
  },
  write_access: {
    value: (random) => String(random.chance(0.5)),
    arg: 'write_access',
    argValue: (random) => String(random.chance(0.3)),
  },
  allowed_resources: {
    value: (random) => list(random, random.chance(0.15) ? [...RESOURCES, ...ODD_RESOURCES] : RESOURCES, 0.3),
    arg: 'resource_uri',
    argValue: (random) => JSON.stringify(random.pick(random.chance(0.6) ? RESOURCES : ODD_RESOURCES)),
  },
  allowed_data_classes: {
    value: (random) => list(random, CLASSES, random.chance(0.5) ? 0.7 : 0.3),
    arg: 'data_class',
    argValue: (random) => JSON.stringify(random.pick(CLASSES)),
  },
};
export const POLICY_MEMBERS = Object.keys(POLICY);

/** The row of a member. Uses own members only, since some of the names that are tried are inherited by every object. */
export const policyRow = (name: string) => (Object.hasOwn(POLICY, name) ? POLICY[name] : undefined);

export const UNKNOWN_MEMBERS = [
  'example.com/region',
  'allowed_tool',
  '__proto__',
  'constructor',
  'length',
  'é',
];
export const extraValue = (random: Random) => random.pick(EXTRA);

export const PATHS = [
  '/mcp/tools/call',
  '/mcp/tools',
  '/mcp',
  '/mcp/tools/call/x',
  '/mcp/toolsx',
  '/a',
  '/MCP',
];
export const ODD_PATHS = [
  ...['', '/', 'mcp', '/mcp/', '//mcp', '/mcp/../a', '/mcp/./a', '/mcp//a', '/mcp/..', '/mcp/...'],
  ...['/mcp/%2e%2e', '/mcp/tools/call/..', '/mcp ', '/mcp\u0000'],
];

export const ODD_HEADERS = [
  ...['{}', '[]', '"EdDSA"', '{"alg":"none"}', '{"alg":"ES256"}', '{"alg":"eddsa"}'],
  ...['{"alg":"Ed25519"}', '{"alg":"Ed448"}', '{"alg":["EdDSA"]}', '{"alg":null}', '{"typ":"JWT"}'],
  ...['{"alg":"EdDSA"}', '{"alg":"EdDSA","kid":"x","jwk":{"a":[1]}}', '{"alg":"EdDSA","crit":["exp"]}'],
  ...['{"alg":"EdDSA","crit":null}', '{"alg":"EdDSA","b64":true}', '{"alg":"EdDSA","b64":false}'],
  ...['{"alg":"EdDSA","alg":"none"}', '{"alg":"none","alg":"EdDSA"}'],
  ...['{"alg":"EdDSA","__proto__":{"crit":1}}', '{ "alg" : "EdDSA" }', '\ufeff{"alg":"EdDSA"}'],
  ...['{"alg":"EdDSA"', '{"alg":"EdDSA","x":"\ufffd"}', '{"alg":"HS256","crit":["x"]}'],
];
