// Makes vectors.json from fixed keys and a fixed seed. Oracle and library must agree on every vector.
import { writeFileSync } from 'node:fs';
import { createVerifier, CATALOGUE } from '../../src/index.js';
import {
  expectedOfLibrary,
  httpText,
  libraryCall,
  revocationOf,
  toRequest,
  comparableAnswer,
} from '../oracle/differential/request.js';
import { randomBody, randomEdits } from '../oracle/generator/edits.js';
import { Forest, NOW, SERVERS } from '../oracle/generator/forest.js';
import { digestOf } from '../oracle/encoding.js';
import type { Json } from '../oracle/json.js';
import { parse, type Link } from '../oracle/generator/recipe.js';
import { didOf } from '../oracle/generator/keys.js';
import { Random } from '../oracle/generator/random.js';
import { gateVectors } from './generate-gate.js';
import { usageVectors } from './generate-usage.js';
import { askOracle, type Expected, type Profile } from './oracle.js';

const SEED = 20_261_122;
const MAX_LENGTH = 7_000;
const OF_A_KIND = 3;
const TRIES = 1_800;

const LOCAL = [1, 7, 64, 200];
/** That of `NOW`. */
const ONE_DAY = { not_before: '2049-03-22', not_after: '2049-03-22' };
// The root and the leaf of the first two chains that every profile has, and a key that issues many others.
const NAMES = namesOf(new Random(SEED));
const PROFILES: Readonly<Record<string, Profile>> = {
  plain: { settings: {}, revocation: { remote: 'none', local: [] } },
  strict: {
    settings: {
      trustedRoots: [didOf(0), didOf(1), didOf(2)],
      serverIdentity: SERVERS[0] ?? '',
      maxChainDepth: 4,
    },
    revocation: { remote: 'none', local: [] },
  },
  roots: {
    settings: {
      trustedRoots: [
        { did: didOf(0), name: 'alice@example.com', labels: { team: 'sales' }, ...ONE_DAY },
        { did: didOf(1), not_before: '2049-03-22T05:26:40+01:00', not_after: '2049-03-22T04:26:40Z' },
        { did: didOf(2), policy: { allowed_tools: ['search', 'fetch', ''], pii_access: false }, ...ONE_DAY },
      ],
    },
    revocation: { remote: 'none', local: [] },
  },
  revoked: { settings: {}, revocation: { remote: 'none', local: LOCAL } },
  list: {
    settings: {},
    revocation: { remote: '8100000000000000000000000000000000000000000000ff', local: [9] },
  },
  'revoked by name': { settings: {}, revocation: { remote: 'none', local: NAMES } },
  'list down': { settings: {}, revocation: { remote: 'unavailable', local: [7] } },
  bound: { settings: { requireBinding: true }, revocation: { remote: 'none', local: [] } },
};

const TIMES = [NOW, 1_800_000_000, 1_900_000_000];
const vectors: object[] = [];
const counts = new Map<string, number>();
const codes = new Set<string>();

for (const [profile, { settings, revocation }] of Object.entries(PROFILES)) {
  const random = new Random(SEED);
  const forest = new Forest(random, 5, 40);
  const { trustedRoots, tools, ...others } = settings;
  const verifier = createVerifier({
    ...others,
    ...(trustedRoots && { trustedRoots: [...trustedRoots] }),
    ...(tools && { tools: [...tools] }),
    workerThreads: 0,
  });
  // Questions that need a list over the network are put only to the oracle here. The test asks the library.
  const canAsk = revocation.remote === 'none';
  for (const target of revocation.local) await verifier.revoke(revocationOf(target));
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const { links, call } = forest.chain();
    const edits = random.chance(0.12) ? [] : randomEdits(random, links);
    const body = randomBody(random, call);
    const recipe = { links, call, edits, ...(body !== undefined && { body }) };
    const now = random.chance(0.8) ? NOW : NOW + random.pick([-1_000_000_000, 500_000_001, -1, 1]);
    const request = toRequest(recipe, { channel: 'text', now });
    const text = httpText(request);
    if (text.length > MAX_LENGTH) continue;
    if (profile !== 'plain' && attempt > TRIES / 6) break;
    const ask = (at: number): Expected => askOracle({ settings, revocation }, text, at);
    const expected = ask(now);
    const what = expected.code ?? `${expected.status ?? 'valid'} ${expected.binding ?? ''}`.trim();
    const kind = `${profile} ${what}`;
    const isNew = !codes.has(what);
    // Keep every answer that no vector has yet. Otherwise keep three vectors of a kind in the profile `plain`, and one in
    // each other profile.
    if (!isNew && (counts.get(kind) ?? 0) >= (profile === 'plain' ? OF_A_KIND : 1)) continue;
    if (canAsk && expected.status === undefined) {
      const local = new Set(revocation.local);
      const wanted = expectedOfLibrary(request, settings, { remote: 'none', local });
      const [bundle, options] = libraryCall(request);
      const found = comparableAnswer(await verifier.verify(bundle, options));
      if (found !== wanted) throw new Error(`the oracle says ${wanted}, the library says ${found}: ${text}`);
    }
    codes.add(what);
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    const changed = edits.map((edit) =>
      [edit.kind, 'path' in edit ? edit.path.join('.') : ''].join(' ').trim(),
    );
    vectors.push({
      id: `${profile.replace(' ', '-')}-${what.toLowerCase().replace(/[^a-z0-9]+/g, '-')}-${counts.get(kind)}`,
      kind: 'verify',
      profile,
      description: changed.join(', ') || 'as it should be',
      now,
      anyTime: TIMES.every((time) => JSON.stringify(ask(time)) === JSON.stringify(expected)),
      request: text,
      ...(body !== undefined && { bodyText: body }),
      expected,
    });
  }
  await verifier.close();
}

/** Calls that the generator of the others does not make: policies of all levels, arguments, and what they are about. */
const CALLS: readonly (readonly [id: string, policy: object, args: object, about: string])[] = [
  // What a level limits, and the call does not state.
  ...[
    { max_cost_usd: 5 },
    { pii_access: false },
    { write_access: false },
    { allowed_resources: ['file:///data/*'] },
    { allowed_data_classes: ['public'] },
  ].map((policy) => {
    const [member = ''] = Object.keys(policy);
    const args = { tool: 'delete_all', path: '/etc/passwd' };
    const about = `${member} limits what the call does not state`;
    return [`unstated-${member.replaceAll('_', '-')}`, policy, args, about] as const;
  }),
  // What needs a person's yes, which no bundle has.
  ['approval-tool', { approve_tools: ['transfer'] }, { tool: 'transfer' }, 'approve_tools has the tool'],
  ['approval-other', { approve_tools: ['transfer'] }, { tool: 'search' }, 'approve_tools has another tool'],
  ['approval-any', { approve_tools: ['*'] }, { tool: 'search' }, 'approve_tools has each tool'],
  ['approval-unnamed', { approve_tools: ['transfer'] }, { tool: 7 }, 'approve_tools, and no tool is named'],
  ['approval-none', { approve_tools: [] }, { tool: 'transfer' }, 'approve_tools is empty'],
];
for (const [id, policy, args, description] of CALLS) {
  const { links, call } = new Forest(new Random(SEED), 5, 40).chain();
  const claiming = (link: Link, name: string, value: object): Link => {
    const members = link.claims.members.map(([key, old]): [string, Json] => [
      key,
      key === name ? parse(JSON.stringify(value)) : old,
    ]);
    return { ...link, claims: { kind: 'object', members } };
  };
  const recipe = {
    links: links.map((link) => claiming(link, 'policy', policy)),
    call: claiming(call, 'args', args),
    edits: [],
  };
  const text = httpText(toRequest(recipe, { channel: 'text', now: NOW }));
  const expected = askOracle(PROFILES['plain'] as Profile, text, NOW);
  if (expected.code !== undefined) codes.add(expected.code);
  vectors.push({
    ...{ id: `plain-${id}`, kind: 'verify', profile: 'plain', description },
    ...{ now: NOW, anyTime: false, request: text, expected },
  });
}

vectors.push(...gateVectors(SEED, NOW, TIMES), ...usageVectors(NOW));

const unseen = CATALOGUE.map(({ code }) => code).filter((code) => !codes.has(code));
const file = new URL('../../../test/conformance/vectors.json', import.meta.url);
writeFileSync(file, `${JSON.stringify({ version: 1, profiles: PROFILES, vectors }, null, 1)}\n`);
console.log(`${vectors.length} vectors; codes without one: ${unseen.join(', ') || 'none'}`);

function namesOf(random: Random): string[] {
  const forest = new Forest(random, 5, 40);
  const receipts = [forest.chain(), forest.chain()].map(({ links, call }) => {
    const { bundle } = toRequest({ links, call, edits: [] }, { channel: 'text', now: NOW });
    return (JSON.parse(bundle) as { receipts: string[] }).receipts;
  });
  return [digestOf(receipts[0]?.[0] ?? ''), digestOf(receipts[1]?.at(-1) ?? ''), didOf(2)];
}
