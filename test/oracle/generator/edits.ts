import { member, type Json } from '../json.js';
import { NOW } from './forest.js';
import { didOf, FORGERIES, KEYS, ODD_DIDS, WEAK_DIDS } from './keys.js';
import type { Random } from './random.js';
import { PAYLOAD_CHANGES, TOKEN_CHANGES, type Edit, type Link, type Path, type Place } from './recipe.js';
import {
  extraValue,
  ODD,
  ODD_HEADERS,
  ODD_PATHS,
  ODD_RESOURCES,
  PATHS,
  POLICY_MEMBERS,
  policyRow,
  UNKNOWN_MEMBERS,
} from './values.js';

const RECEIPT_CLAIMS = [
  ...['aud', 'cmd', 'drs_consent', 'drs_root_type', 'drs_status_list_index', 'drs_type', 'drs_v'],
  ...['exp', 'iat', 'iss', 'jti', 'nbf', 'policy', 'prev_dr_hash', 'sub'],
  ...['status', 'credentialStatus', 'drs_status'],
];
const CALL_CLAIMS = [
  ...['args', 'cmd', 'dr_chain', 'drs_type', 'drs_v', 'iat', 'iss', 'jti', 'sub', 'tool_server'],
];
const CONSENT_MEMBERS = ['locale', 'method', 'policy_hash', 'session_id', 'timestamp'];

/** Makes one change to a chain, of a random kind. Some changes need two edits. */
export function randomEdits(random: Random, links: readonly Link[]): Edit[] {
  const at: Place = random.chance(0.3) ? 'invocation' : random.below(links.length);
  const kind = random.next();
  if (kind < 0.03) return [statedEdit(random, at)];
  if (kind < 0.2) return [oddClaim(random, at)];
  if (kind < 0.36) return [policyEdit(random, random.below(links.length))];
  if (kind < 0.46) return [argEdit(random)];
  if (kind < 0.5) return resourceEdits(random, links);
  if (kind < 0.54) return inheritedEdits(random, links);
  if (kind < 0.7) return [aimedClaim(random, at)];
  if (kind < 0.76) return [{ kind: 'header', at, text: random.pick(ODD_HEADERS) }];
  if (kind < 0.82) return [{ kind: 'payload', at, change: random.pick(keys(PAYLOAD_CHANGES)) }];
  if (kind < 0.87) return [{ kind: 'token', at, change: random.pick(keys(TOKEN_CHANGES)) }];
  if (kind < 0.91) return signatureEdit(random, at);
  if (kind < 0.96) return [orderEdit(random, links.length)];
  return [bundleEdit(random)];
}

const keys = <T extends object>(object: T) => Object.keys(object) as (keyof T)[];

/** Changes a claim. If it is also signed and linked again, later checks see the change; otherwise earlier ones fail. */
function claim(random: Random, at: Place, path: Path, text: string | undefined): Edit {
  const followed = random.chance(0.85);
  return {
    kind: 'claim',
    at,
    path,
    ...(text !== undefined && { text }),
    ...(text !== undefined && random.chance(0.04) && { twice: true }),
    sign: followed || random.chance(0.5),
    relink: followed || random.chance(0.5),
  };
}

function oddClaim(random: Random, at: Place): Edit {
  const name = random.pick(at === 'invocation' ? CALL_CLAIMS : RECEIPT_CLAIMS);
  const path = name === 'drs_consent' && random.chance(0.6) ? [name, random.pick(CONSENT_MEMBERS)] : [name];
  return claim(random, at, path, random.chance(0.2) ? undefined : random.pick(ODD));
}

const LABELS = ['null', '""', '5', '"s-1"', `"${'\u20ac'.repeat(256)}"`, `"${'x'.repeat(257)}"`];
const few = (count: number) => JSON.stringify(Array<string>(count).fill('gdpr'));
/** Texts for what a call belongs to, in a root or an invocation; at their limits. */
const STATED: Readonly<Record<string, readonly string[]>> = {
  session_id: LABELS,
  correlation_id: LABELS,
  drs_regulatory: [
    ...['null', '{}', '[]', '"x"', '{"x":1}', '{"frameworks":null,"risk_level":null,"retention_days":null}'],
    ...['{"frameworks":["gdpr","eu-ai-act"],"risk_level":"high","retention_days":3e1,"x":[1]}'],
    ...LABELS.flatMap((text) => [`{"risk_level":${text}}`, `{"frameworks":[${text}]}`]),
    ...[few(0), few(16), few(17), '"x"', '{}'].map((text) => `{"frameworks":${text}}`),
    ...['-1', '1.5', '9007199254740991', '9007199254740992', '"1"'].map(
      (text) => `{"retention_days":${text}}`,
    ),
  ],
};

function statedEdit(random: Random, at: Place): Edit {
  const name = random.pick(Object.keys(STATED));
  return claim(random, at, [name], random.pick(STATED[name] ?? []));
}

const isList = (name: string) => /^allowed_|^approve_tools$/.test(name);

function policyEdit(random: Random, at: number): Edit {
  const name = random.chance(0.85) ? random.pick(POLICY_MEMBERS) : random.pick(UNKNOWN_MEMBERS);
  const kind = random.next();
  if (kind < 0.15) return claim(random, at, ['policy', name], undefined);
  if (kind < 0.4) return claim(random, at, ['policy', name], random.pick(ODD));
  if (kind < 0.45 && isList(name))
    return claim(
      random,
      at,
      ['policy', name],
      JSON.stringify(Array<string>(random.pick([4096, 4097])).fill('*')),
    );
  if (kind < 0.55 && isList(name)) return claim(random, at, ['policy', name, 0], random.pick(ODD));
  return claim(random, at, ['policy', name], policyRow(name)?.value(random) ?? extraValue(random));
}

/** Suffixes for an allowed prefix, some of which lead out of it. */
const SUFFIXES = [
  ...ODD_RESOURCES.filter((resource) => resource.startsWith('file:///data/')).map((resource) =>
    resource.slice(13),
  ),
  ...['', 'a', 'a/*', '*', 'a/.\r./.%2e/b', 'a\\b', '%2E%2e', '.\u200b./a', '\u0020', '\u001f'],
  ...['..%5cetc', '%5c..%5cetc', '..%3fq'],
];

/** Uses a resource below an allowed prefix, in the call or in the policy of the next receipt. */
function resourceEdits(random: Random, links: readonly Link[]): Edit[] {
  const at = random.below(links.length);
  const link = links[at];
  const policy = link === undefined ? undefined : member(link.claims, 'policy');
  const list = policy?.kind === 'object' ? member(policy, 'allowed_resources') : undefined;
  const entries = list?.kind === 'array' ? list.items : [];
  const prefixes = entries.flatMap((entry) =>
    entry.kind === 'string' && entry.value.endsWith('/*') ? [entry.value.slice(0, -1)] : [],
  );
  const own = prefixes.length === 0 ? 'file:///data/' : random.pick(prefixes);
  const text = JSON.stringify(own + random.pick(SUFFIXES));
  const edits: Edit[] = [];
  if (prefixes.length === 0) {
    const path = ['policy', 'allowed_resources'];
    for (let level = at; level < links.length; level++)
      edits.push({ kind: 'claim', at: level, path, text: `["${own}*"]`, sign: true, relink: true });
  }
  if (at + 1 < links.length && random.chance(0.5))
    edits.push({
      kind: 'claim',
      at: at + 1,
      path: ['policy', 'allowed_resources', 0],
      text,
      sign: true,
      relink: true,
    });
  else
    edits.push({
      kind: 'claim',
      at: 'invocation',
      path: ['args', 'resource_uri'],
      text,
      sign: true,
      relink: true,
    });
  return edits;
}

/** Sets a limit that lower levels do not repeat, and an argument of any type that it limits. */
function inheritedEdits(random: Random, links: readonly Link[]): Edit[] {
  const name = random.pick(POLICY_MEMBERS);
  const { arg, argValue, value } = policyRow(name) ?? {};
  const at = random.below(links.length);
  const text = name.startsWith('allowed_') && random.chance(0.6) ? '["*"]' : (value?.(random) ?? '0');
  const set = (place: Place, path: Path, json?: string): Edit => ({
    kind: 'claim',
    at: place,
    path,
    ...(json !== undefined && { text: json }),
    sign: true,
    relink: true,
  });
  return [
    set(at, ['policy', name], text),
    ...links.slice(at + 1).map((_, below) => set(at + 1 + below, ['policy', name])),
    set('invocation', ['args', arg ?? name], random.chance(0.6) ? random.pick(ODD) : argValue?.(random)),
  ];
}

/** Changes an argument of the call. */
export function argEdit(random: Random): Edit {
  const { arg, argValue } =
    policyRow(random.pick(POLICY_MEMBERS.filter((name) => policyRow(name)?.arg !== undefined))) ?? {};
  const kind = random.next();
  const path = ['args', arg ?? 'n'];
  if (kind < 0.15) return claim(random, 'invocation', path, undefined);
  if (kind < 0.6) return claim(random, 'invocation', path, random.pick(ODD));
  return claim(random, 'invocation', path, argValue?.(random) ?? random.pick(ODD));
}

/** Sets a claim to a value that a check looks for. */
function aimedClaim(random: Random, at: Place): Edit {
  const someone = () =>
    JSON.stringify(random.chance(0.4) ? didOf(random.below(KEYS)) : random.pick([...ODD_DIDS, ...WEAK_DIDS]));
  const time = () =>
    random.pick([NOW - 11, NOW - 1, NOW, NOW + 1, NOW + 11, 0, 1_000_000_000, 2 ** 53 - 1]).toString();
  const hash = () =>
    JSON.stringify(random.pick([`sha256:${'0'.repeat(64)}`, `SHA256:${'A'.repeat(64)}`, 'sha256:', '']));
  const aims: Record<string, () => string | undefined> = {
    iss: someone,
    sub: someone,
    cmd: () => JSON.stringify(random.pick([...PATHS, ...ODD_PATHS])),
    jti: () =>
      JSON.stringify(
        random.pick(['dr:', 'inv:', 'dr', 'DR:1', 'inv:x', 'dr:x', ' dr:1', 'dr:\n', 'inv:\u2028']),
      ),
    drs_type: () => JSON.stringify(random.pick(['delegation-receipt', 'invocation-receipt', ''])),
    drs_v: () => random.pick(['"4"', '"4.0.0"', '"3.0"', '4.0', undefined]),
  };
  if (at === 'invocation') {
    aims['tool_server'] = () => random.pick(['""', '" "', '"https://other.example"', '"\\ud800"']);
    aims['iat'] = time;
    const path: Path = random.chance(0.15) ? ['dr_chain', random.below(4)] : [random.pick(Object.keys(aims))];
    return claim(
      random,
      at,
      path,
      path[0] === 'dr_chain' ? (random.chance(0.5) ? hash() : undefined) : aims[path[0] ?? '']?.(),
    );
  }
  aims['aud'] = someone;
  aims['nbf'] = time;
  aims['exp'] = () => (random.chance(0.2) ? undefined : time());
  aims['prev_dr_hash'] = () => (random.chance(0.3) ? undefined : hash());
  aims['drs_root_type'] = () => random.pick(['"human"', '"agent"', '"Human"', undefined]);
  if (at === 0 && random.chance(0.4)) {
    const member = random.pick(CONSENT_MEMBERS);
    return claim(random, at, ['drs_consent', member], consentText(random, member));
  }
  aims['drs_consent'] = () => undefined;
  aims['drs_status_list_index'] = () =>
    String(random.pick([0, 255, 256, 2 ** 31, 2 ** 32 + 3, 2 ** 53 - 1, random.below(256)]));
  const name = random.pick(Object.keys(aims));
  return claim(random, at, [name], aims[name]?.());
}

/** A text near the form of a member of a consent record. */
function consentText(random: Random, member: string): string {
  const hex = random.pick(['0', 'a', 'F', 'g']).repeat(random.pick([63, 64, 64, 65]));
  const texts: Record<string, readonly string[]> = {
    locale: LOCALES,
    policy_hash: [`sha256:${hex}`, `SHA256:${hex}`, `sha256: ${hex}`, hex],
    timestamp: TIMESTAMPS,
  };
  return JSON.stringify(
    random.pick(texts[member] ?? ['', ' ', 'x'.repeat(1024), 'x'.repeat(1025), '\u20ac']),
  );
}

const LOCALES = [
  ...[
    ...['de', 'DE-ch', 'zh-Hant-TW', 'zh-cmn-yue-gan-Hans', 'sl-rozaj-1994', 'en-a-bbb-x-a', 'x-a'],
    ...['es-419', 'abcdefgh'],
  ],
  ...[
    ...['', 'd', 'C', 'en_US', 'en-', '-en', 'en--us', 'i-klingon', 'en-a', 'en-x', 'x'],
    ...['en-aaaaaaaaa', 'abcdefghi', 'd\u00e9'],
  ],
  ...[
    'zh-aaa-bbb-ccc',
    'zh-aaa-bbb-ccc-ddd',
    'abcd-efg',
    `x${'-aaaaaaaa'.repeat(11)}`,
    `x${'-aaaaaaaa'.repeat(11)}-a`,
  ],
];

const TIMESTAMPS = [
  ...[
    '2026-02-28T23:59:59Z',
    '2024-02-29T00:00:00.1Z',
    '0000-01-01T00:00:00+00:00',
    '2026-01-01T00:00:00.123456789Z',
  ],
  ...['2026-12-31T23:59:60Z', '2026-12-31T22:59:60Z', '2026-02-29T00:00:00Z', '1900-02-29T00:00:00Z'],
  ...[
    '2026-01-01',
    '2026-01-01T00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:00:00',
    '2026-01-01T00:00:00+01:00',
  ],
  ...[
    '2026-01-01 00:00:00Z',
    '2026-01-01t00:00:00z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-04-31T00:00:00Z',
  ],
  ...[
    '2026-01-01T00:00:00.Z',
    '2026-01-01T00:00:00.1234567890Z',
    '2026-01-01T00:00:00-00:00',
    '\u0662026-01-01T00:00:00Z',
  ],
];

function signatureEdit(random: Random, at: Place): Edit[] {
  const forgery = random.pick(FORGERIES);
  const edits: Edit[] = [{ kind: 'signature', at, forgery }];
  if (forgery === 'identity-key') {
    const text = JSON.stringify(random.pick(WEAK_DIDS));
    edits.push({ kind: 'claim', at, path: ['iss'], text, sign: true, relink: true });
    // The one before must name that key, or linkage fails first.
    const before = at === 'invocation' ? -1 : at - 1;
    if (typeof at === 'number' && before >= 0)
      edits.push({ kind: 'claim', at: before, path: ['aud'], text, sign: true, relink: true });
  }
  return edits;
}

function orderEdit(random: Random, depth: number): Edit {
  const all = Array.from({ length: depth }, (_, number) => number);
  const kind = random.below(6);
  const order =
    kind === 0
      ? all.slice(1)
      : kind === 1
        ? all.slice(0, -1)
        : kind === 2
          ? random.shuffled(all)
          : kind === 3
            ? [...all, random.pick(all)]
            : kind === 4
              ? all.filter((number) => number !== random.pick(all))
              : all.slice(random.below(depth));
  return { kind: 'order', order };
}

function bundleEdit(random: Random): Edit {
  const path: Path = random.pick<Path>([
    ['bundle_version'],
    ['receipts'],
    ['invocation'],
    ['receipts', 0],
    ['receipts', 1],
    ['x'],
    [],
  ]);
  const text = random.chance(0.2)
    ? undefined
    : path[0] === 'bundle_version' && random.chance(0.5)
      ? random.pick(['"4"', '"4.0 "', '4.0', '"5.0"'])
      : random.pick(ODD.filter((odd) => odd !== '{"a":1,"a":1}'));
  return { kind: 'bundle', path, ...(text !== undefined && { text }) };
}

/** A body for the call: none, the signed arguments in another notation, or something else. */
export function randomBody(random: Random, call: Link): string | undefined {
  const args = member(call.claims, 'args');
  if (args === undefined || random.chance(0.35)) return undefined;
  const kind = random.next();
  const same = respell(random, args);
  if (kind < 0.5) return same;
  if (kind < 0.6) return random.pick(ODD);
  if (kind < 0.7 && same.endsWith('}') && same !== '{}')
    return `${same.slice(0, -1)},"n":${random.pick(ODD)}}`;
  if (kind < 0.78) return same.replace(/tea|search|fetch/, 'gold');
  if (kind < 0.84) return `{"a":${same}}`;
  if (kind < 0.88)
    return random.pick([`${same}x`, same.slice(0, -1), '', '\ufeff{}', "{'a':1}", '{"a":01}', '[1,]', 'NaN']);
  if (kind < 0.9) return '['.repeat(random.pick([1, 64, 65, 200]));
  if (kind < 0.96) return deep(random.pick([63, 64, 65, 200]));
  return same.replace(/^\{/, '{"tool":"search",');
}

const deep = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;

/** Writes the same value as another text. */
function respell(random: Random, json: Json): string {
  const space = () => (random.chance(0.1) ? random.pick([' ', '\n', '\t ']) : '');
  switch (json.kind) {
    case 'object':
      return `{${space()}${random
        .shuffled(json.members)
        .map(([name, value]) => `${spelt(random, name)}${space()}:${respell(random, value)}`)
        .join(',')}}`;
    case 'array':
      return `[${json.items.map((item) => space() + respell(random, item)).join(',')}]`;
    case 'string':
      return spelt(random, json.value);
    case 'number':
      if (/^-?[0-9]{1,15}$/.test(json.text) && random.chance(0.3))
        return json.text + random.pick(['.0', 'e0', 'E+0', '.00e-0']);
      return json.text;
    default:
      return JSON.stringify(json.kind === 'null' ? null : json.value);
  }
}

function spelt(random: Random, text: string): string {
  if (text === '' || !random.chance(0.1)) return JSON.stringify(text);
  const code = text.charCodeAt(0).toString(16).padStart(4, '0');
  return `"\\u${random.chance(0.5) ? code : code.toUpperCase()}${JSON.stringify(text.slice(1)).slice(1)}`;
}
