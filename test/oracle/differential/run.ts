import { digestOf, keyOfDid } from '../encoding.js';
import { member, readJson, writeJson } from '../json.js';
import { readJwt } from '../jwt.js';
import type { Revocation } from '../oracle.js';
import { argEdit, randomBody, randomEdits } from '../generator/edits.js';
import { Forest, listName, NOW, SERVERS, STATUS_LIST_BITS } from '../generator/forest.js';
import { didOf, KEYS } from '../generator/keys.js';
import { Random } from '../generator/random.js';
import type { Recipe } from '../generator/recipe.js';
import {
  expectedOfClient,
  expectedOfLibrary,
  expectedOfService,
  toRequest,
  type Request,
  type Revoked,
  type Step,
} from './request.js';
import {
  openListHost,
  openTarget,
  Services,
  type CreateVerifier,
  type Target,
  type TargetKind,
  type World,
} from './targets.js';

/** An answer that differs from the oracle's. */
export interface Difference {
  readonly target: TargetKind;
  readonly world: World;
  readonly request: Request;
  readonly expected: string;
  readonly actual: string;
  /** All steps of that target, ending with this request. */
  readonly steps: readonly Step[];
}

export interface RunOptions {
  readonly verdicts: number;
  readonly seed: number;
  readonly kinds: readonly TargetKind[];
  readonly createVerifier: CreateVerifier;
  /** Number of verdicts in an epoch. Each epoch has its own verifiers, chains and status list. */
  readonly epoch?: number;
  readonly onDifference: (difference: Difference) => Promise<void> | void;
  /** The number of the first epoch. To continue a run that was stopped, give the number after its last epoch. */
  readonly firstEpoch?: number;
  /** Whether services with the same options share a process: quicker, but a case of one may need the steps of another. */
  readonly areServicesShared?: boolean;
  /** The most different requests that are asked together, each up to four times; default 6. */
  readonly together?: number;
  readonly onProgress?: (verdicts: number, epoch: number) => void;
}

export interface RunResult {
  verdicts: number;
  /** Number of the oracle's answers by code. */
  readonly codes: Map<string, number>;
  differences: number;
}

/** What an operator says: constants, and what other arguments say, which are often missing or of another type. */
export const TOOLS: NonNullable<World['settings']['tools']> = [
  { tool: 'search', cost_usd: { argument: 'n' }, writes: false, resource: 'file:///data/a/b' },
  {
    tool: 'fetch',
    cost_usd: { argument: '/estimated_cost_usd' },
    pii: { argument: 'pii_access' },
    resource: { argument: 'query', before: 'file:///data/' },
  },
  { tool: '*', writes: true, pii: false, data_class: 'public' },
];

function worlds(random: Random): World[] {
  const bits = new Uint8Array(STATUS_LIST_BITS / 8).map(() =>
    random.chance(0.3) ? 1 << random.below(8) : 0,
  );
  return [
    { name: 'plain', settings: {}, remote: 'none' },
    { name: 'list', settings: {}, remote: bits },
    {
      name: 'strict',
      settings: {
        trustedRoots: [
          {
            did: didOf(0),
            name: 'Zoë',
            policy: { allowed_tools: ['search', 'fetch', ''], pii_access: false },
          },
          {
            did: didOf(1),
            name: 'alice@example.com',
            labels: { team: 'sales' },
            approve: { above_usd: 1 },
            not_before: '2020-01-01',
            not_after: '2055-06-30T12:00:00+02:00',
          },
          didOf(2),
        ],
        serverIdentity: SERVERS[0] ?? '',
        ...{ clockSkewSecs: 10, expiryGraceSecs: 20 },
        maxChainDepth: 4,
      },
      remote: 'none',
    },
    {
      name: 'tools',
      settings: { tools: TOOLS },
      remote: 'none',
    },
    { name: 'lax', settings: { unstatedArguments: 'allow', tools: TOOLS.slice(0, 2) }, remote: 'none' },
    { name: 'list down', settings: { maxChainDepth: 17 }, remote: 'unavailable' },
    listsOfRoots(random, bits),
  ];
}

/** Of four roots, two have lists of both forms, one has one that is down, and one counts in the operator's. */
function listsOfRoots(random: Random, remote: Uint8Array): World {
  const size = random.pick([1, 2, 4, 8] as const);
  const list = (bits: 1 | 2 | 4 | 8 | null) => {
    const bytes = Buffer.alloc((STATUS_LIST_BITS * (bits ?? 1)) / 8);
    for (let count = 12; count > 0; count--) bytes[random.below(bytes.length)] = random.below(256);
    return { bits, hex: bytes.toString('hex') };
  };
  const row = (key: number, ...forms: ('w3c' | 'token')[]) => {
    const lists = forms.map((form) => ({ uri: listName(key, form), form }));
    return lists.length === 0 ? didOf(key) : { did: didOf(key), status_lists: lists };
  };
  return {
    name: 'lists of roots',
    settings: { trustedRoots: [row(0, 'w3c', 'token'), row(1, 'token', 'w3c'), row(2), row(3, 'w3c')] },
    remote,
    lists: {
      [listName(0, 'w3c')]: list(null),
      [listName(0, 'token')]: list(size),
      [listName(1, 'token')]: list(2),
      [listName(1, 'w3c')]: list(null),
      [listName(3, 'w3c')]: 'unavailable',
    },
  };
}

/** Asks the oracle and every target the same questions, until the number of verdicts is reached. */
export async function run(options: RunOptions): Promise<RunResult> {
  const result: RunResult = { verdicts: 0, codes: new Map(), differences: 0 };
  for (let epoch = options.firstEpoch ?? 0; result.verdicts < options.verdicts; epoch++) {
    const random = new Random(options.seed * 1_000_003 + epoch);
    const all = worlds(random);
    const world = all[epoch % all.length];
    if (world !== undefined) await runEpoch(random, world, options, result);
    options.onProgress?.(result.verdicts, epoch);
  }
  return result;
}

async function runEpoch(random: Random, world: World, options: RunOptions, result: RunResult): Promise<void> {
  const end = Math.min(options.verdicts, result.verdicts + (options.epoch ?? 50_000));
  const host = await openListHost(world);
  const services = new Services(options.areServicesShared);
  const targets: Target[] = [];
  try {
    const { createVerifier } = options;
    for (const kind of options.kinds)
      targets.push(await openTarget(kind, world, { listUrl: host.url, createVerifier, services }));
    const requests = generate(random, world.lists === undefined ? 0.02 : 0.4);
    const steps: Step[] = [];
    const local = new Set<Revoked>();
    const revoke = async (revoked: Revoked) => {
      for (const target of targets) await target.revoke(revoked);
      local.add(revoked);
      steps.push({ kind: 'revoke', target: revoked });
    };
    while (result.verdicts < end) {
      if (random.chance(0.004)) await revoke(random.below(STATUS_LIST_BITS));
      if (random.chance(0.004))
        await revoke(`index ${didOf(random.below(4))} ${random.below(STATUS_LIST_BITS)}`);
      const batch = requests(1 + random.below(options.together ?? 6));
      // Few, since one can end most of the chains that are left.
      if (random.chance(0.01)) await revoke(randomName(random, random.pick(batch)));
      await runBatch(batch, random, { world, targets, steps, local, result, options });
    }
  } finally {
    for (const target of targets) await target.close();
    await services.close();
    await host.close();
  }
}

/** A receipt of a request, by its digest or its `jti`, or a DID that is in it. */
function randomName(random: Random, { recipe, bundle }: Request): Revoked {
  const { receipts } = JSON.parse(bundle) as { receipts?: unknown };
  const text: unknown = Array.isArray(receipts) ? receipts.at(random.below(receipts.length)) : undefined;
  if (typeof text === 'string' && random.chance(0.5)) return digestOf(text);
  const claims = recipe === undefined ? undefined : random.pick(recipe.links).claims;
  const [jti, iss] = [claims && member(claims, 'jti'), claims && member(claims, 'iss')];
  if (jti?.kind === 'string' && iss?.kind === 'string' && random.chance(0.3))
    return `jti ${iss.value} ${jti.value}`;
  const did = claims && member(claims, random.pick(['iss', 'aud'] as const));
  return did?.kind === 'string' && keyOfDid(did.value) !== undefined ? did.value : didOf(random.below(KEYS));
}

/** Makes new requests, and repeats earlier ones at other times. */
function generate(random: Random, listed: number): (count: number) => Request[] {
  const forest = new Forest(random, 5, 60, listed);
  const recent: Recipe[] = [];
  const fresh = (): Recipe => {
    const { links, call } = forest.chain();
    const edits = [];
    for (let count = random.pick([0, 0, 0, 1, 1, 1, 2]); count > 0; count--)
      edits.push(...randomEdits(random, links));
    const body = randomBody(random, call);
    return { links, call, edits, ...(body !== undefined && { body }) };
  };
  return (count) =>
    Array.from({ length: count }, () => {
      const known = recent.length > 0 && random.chance(0.4) ? random.pick(recent) : undefined;
      // Another call under the same chain uses the cache of chains.
      const recipe =
        known === undefined
          ? fresh()
          : random.chance(0.4) || known.edits.length > 6
            ? known
            : { ...known, edits: [...known.edits, argEdit(random)] };
      if (recent.length < 200) recent.push(recipe);
      else recent[random.below(recent.length)] = recipe;
      const now =
        NOW +
        (random.chance(0.6)
          ? 0
          : random.pick([-11, -10, -1, 1, 10, 11, 20, 21, -1_000_000_000, 500_000_001]));
      const channel = random.pick(['text', 'value', 'member'] as const);
      return toRequest(recipe, { channel, now, ...(random.chance(0.05) && { details: true }) });
    });
}

interface Epoch {
  readonly world: World;
  readonly targets: readonly Target[];
  readonly steps: Step[];
  readonly local: ReadonlySet<Revoked>;
  readonly result: RunResult;
  readonly options: RunOptions;
}

/** Sends each request one to four times, in any order, one after the other or all at once. */
async function runBatch(batch: readonly Request[], random: Random, epoch: Epoch): Promise<void> {
  const { world, targets, steps, local, result, options } = epoch;
  const revocation: Revocation = { remote: world.remote, local, lists: world.lists ?? {} };
  const together = random.chance(0.5);
  const sent = random.shuffled(batch.flatMap((request) => Array<Request>(1 + random.below(4)).fill(request)));
  const before = steps.length;
  steps.push(...sent.map((request): Step => ({ kind: 'verify', request })));
  const ofLibrary = new Map(
    batch.map((request) => [request, expectedOfLibrary(request, world.settings, revocation)]),
  );
  for (const line of ofLibrary.values()) {
    const [code = ''] = line.split(' ');
    result.codes.set(code, (result.codes.get(code) ?? 0) + 1);
  }

  // All targets at once: while one waits for a thread or another process, the others work.
  const asked = await Promise.all(
    targets.map(async (target) => {
      // Over HTTP the real time counts, so the oracle is asked again.
      const expect = target.kind.client === true ? expectedOfClient : expectedOfService;
      const expected = target.kind.service
        ? new Map(batch.map((request) => [request, expect(request, world.settings, revocation)]))
        : ofLibrary;
      const answers: string[] = [];
      if (together) answers.push(...(await Promise.all(sent.map((request) => target.ask(request)))));
      else for (const request of sent) answers.push(await target.ask(request));
      return { target, expected, answers };
    }),
  );
  for (const { target, expected, answers } of asked) {
    result.verdicts += answers.length;
    for (const [at, actual] of answers.entries()) {
      const request = sent[at];
      const wanted = request && expected.get(request);
      if (request === undefined || wanted === undefined || actual === wanted) continue;
      result.differences++;
      await options.onDifference({
        target: target.kind,
        world,
        request,
        expected: wanted,
        actual,
        steps: steps.slice(0, before + at + 1),
      });
    }
  }
}

/** Decodes the tokens of a request for people. */
export function explain(request: Request): Record<string, unknown> {
  const bundle = readJson(request.bundle);
  if (bundle?.kind !== 'object') return { bundle: request.bundle };
  const list = member(bundle, 'receipts');
  const texts = [...(list?.kind === 'array' ? list.items : []), member(bundle, 'invocation')].map((item) =>
    item?.kind === 'string' ? item.value : JSON.stringify(item),
  );
  return {
    tokens: texts.map((text) => {
      const jwt = readJwt(text);
      if (jwt !== undefined) return `${writeJson(jwt.header)} ${writeJson(jwt.payload)}`;
      return text
        .split('.')
        .slice(0, 2)
        .map((part) => Buffer.from(part, 'base64url').toString())
        .join(' ');
    }),
  };
}
