import fc from 'fast-check';
import { parseStrictJson, type JsonObject } from '../../src/protocol/json.js';
import { readPolicy } from '../../src/protocol/policy.js';
import { coversEveryEntry, coversResource } from '../../src/protocol/resources.js';
import { findPolicyEscalation } from '../../src/verify/attenuation.js';
import { findViolation } from '../../src/verify/tools.js';
import { allows, hasKnownMembersOfRightType, isWithin } from '../oracle/policy.js';
import { fromValue, type JsonObject as OracleObject } from '../oracle/json.js';
import { ODD_RESOURCES, POLICY_MEMBERS, UNKNOWN_MEMBERS } from '../oracle/generator/values.js';
import { same, type Target } from './target.js';

/** Compares policies with policies and with calls: `[parent, child, arguments]` as JSON. */

const resource = fc.constantFrom(...ODD_RESOURCES, 'file:///data/a', 'file:///data/*', 'a/*', '*', '/*');
const value = fc.oneof(
  fc.array(resource, { maxLength: 4 }),
  fc.boolean(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.nat(10),
  fc.constant(null),
  resource,
  fc.jsonValue({ maxDepth: 2 }),
);
const names = fc.constantFrom(...POLICY_MEMBERS, ...UNKNOWN_MEMBERS);
const members = fc.dictionary(names, value, { maxKeys: 4 });
const args = fc.dictionary(
  fc.constantFrom('tool', 'estimated_cost_usd', 'pii_access', 'write_access', 'resource_uri', 'data_class'),
  value,
  { maxKeys: 4 },
);

function read(text: string): [JsonObject, JsonObject, JsonObject] | null {
  const { value: found } = parseStrictJson(text, 1e9);
  if (!Array.isArray(found) || found.length < 3) return null;
  const three = found.slice(0, 3);
  const areObjects = three.every((one) => typeof one === 'object' && one !== null && !Array.isArray(one));
  return areObjects ? (three as [JsonObject, JsonObject, JsonObject]) : null;
}

const policy: Target = {
  name: 'policy',
  texts: fc.tuple(members, members, args).map((three) => JSON.stringify(three)),
  dictionary: [
    ...POLICY_MEMBERS.map((name) => `"${name}":`),
    ...['"*"', '["*"]', '"a/*"', '[]', '{}', 'null', 'true', 'false', '-1', '0', '5', '1e308', '"tool":"a",'],
    ...['"estimated_cost_usd":0.3,', '1e-7', '0.0000019', '1e9'],
    ...['"resource_uri":7,', '"resource_uri":"a/b",', '"..', '%2e', '\\u0009', '\\\\'],
  ],
  run(text) {
    const three = read(text);
    if (three === null) return;
    const [parent, child, call] = three;
    const [above, below, asked] = three.map((one) => fromValue(one)) as [
      OracleObject,
      OracleObject,
      OracleObject,
    ];
    const policies = [readPolicy(parent), readPolicy(child)] as const;
    same('the types of a policy', policies[0].defect === undefined, hasKnownMembersOfRightType(above));
    const [one, two] = policies;
    if (one.defect !== undefined || two.defect !== undefined) return;
    same('attenuation', findPolicyEscalation(parent, child) === null, isWithin(below, above));
    same('the call', findViolation(one.limits, call) === null, allows(above, asked));
  },
  time(text) {
    const three = read(text);
    if (three === null) return;
    const [above, below] = [readPolicy(three[0]), readPolicy(three[1])];
    if (above.defect !== undefined || below.defect !== undefined) return;
    findPolicyEscalation(three[0], three[1]);
    findViolation(below.limits, three[2]);
  },
};

const lists = fc.tuple(fc.array(resource, { maxLength: 6 }), fc.array(resource, { maxLength: 6 }));
const resources: Target = {
  name: 'resources',
  texts: lists.map((two) => JSON.stringify(two)),
  dictionary: [
    ...['"', ',', '/*', '*', '..', '.', '/', '%2e', '%2F', '\\\\', '\\u0000', '?', '#', 'file:///'],
    '[]',
  ],
  run(text) {
    const two = readLists(text);
    if (two === null) return;
    const [parent, child] = two;
    // A child's entry is covered like a resource: by an equal entry, or by a prefix above it. Only `*` covers `*`.
    const expected = child.every((entry) => coversResource(parent, entry));
    same(`whether ${text} narrows`, coversEveryEntry(parent, child), expected);
    const target = child[0];
    if (target === undefined || parent.includes('*') || parent.includes(target)) return;
    if (coversResource(parent, target)) checkReading(parent, target);
  },
  time(text) {
    const two = readLists(text);
    if (two === null) return;
    coversEveryEntry(...two);
    coversResource(two[0], two[1][0] ?? '');
  },
};

function readLists(text: string): [string[], string[]] | null {
  const { value: found } = parseStrictJson(text, 1e9);
  const isLists =
    Array.isArray(found) &&
    found.length === 2 &&
    found.every((list) => Array.isArray(list) && list.every((item) => typeof item === 'string'));
  return isLists ? (found as [string[], string[]]) : null;
}

/** Checks that a covered resource is still below the prefix when a URL parser has read it. */
function checkReading(parent: readonly string[], uri: string): void {
  for (const entry of parent) {
    if (!entry.endsWith('/*') || !/^(?:https?|file):\/\/[a-z.]*\/$/.test(entry.slice(0, -1))) continue;
    const prefix = entry.slice(0, -1);
    if (!uri.startsWith(prefix) || !URL.canParse(uri) || !URL.canParse(prefix)) continue;
    const decoded = decodeURIComponent(
      new URL(uri).href.replace(/%(?![0-9a-f]{2})/gi, '%25').replace(/%(?:[89a-f])/gi, '%25'),
    );
    if (!decoded.startsWith(new URL(prefix).href)) throw new Error(`${uri} leaves ${entry}: ${decoded}`);
  }
}

export const targets: readonly Target[] = [policy, resources];
