import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DrsClient } from '../../src/client/index.js';
import { GATE_CATALOGUE, type Protocol } from '../../src/gate/codes.js';
import { RouteTable } from '../../src/gate/routes.js';
import { CATALOGUE, createVerifier, type TrustedRoot, type VerifierOptions } from '../../src/index.js';
import { encode, liveCall, liveChain, now } from '../middleware/call.js';
import { listen } from '../middleware/http.js';
import { LIST_ID, listWith } from '../revocation/lists.js';
import { REFUSED, type RefusedCase } from '../support/cases.js';
import type { Overrides, TestBundle } from '../support/chain.js';
import { startService } from '../support/service-in-process.js';
import { a2aCall, ATTACKS, httpCall, toolCall, type Attempt, type Transport } from './attacks.js';
import { mcpChain } from './decide.js';
import * as ways from './transports.js';

/**
 * Each code has one explanation, whichever door it comes out of: its message and suggestion, and from gates its status.
 * `MALFORMED_BUNDLE` and `BINDING_MISMATCH` are rows of both catalogues: a gate says more of what carried bundle and body.
 */

/** What comes out of one door alone, or not by what a caller sends; and the tests that see it. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  DID_RESOLUTION_FAILED: 'needs a document that cannot be had: trust/web-keys',
  REVOCATION_CHECK_FAILED: 'needs a status list that cannot be had: e2e/verdicts',
  REPLAY_STORE_UNAVAILABLE: 'needs a broken store: usage/use-invocation',
  'gate BODY_TIMEOUT': 'needs the patience of a server: e2e/gate-bodies',
  'gate VERIFIER_UNAVAILABLE': 'needs a broken verifier: service/gate-decider, middleware/node',
  'gate TASK_MISMATCH': 'only drsMcp remembers whose task it is: gate/mcp-side',
  'gate APPROVAL_DENIED': 'needs a person who has said no: service/approve',
};

/** One refusal, asked for at many doors. */
interface Row {
  /** As in {@link ELSEWHERE}. */
  readonly code: string;
  readonly name: string;
  /** The request to gates, by protocol. */
  readonly sent: Partial<Record<Protocol, Attempt>>;
  /** What verifiers are asked; left out: they cannot find it. */
  readonly asked?: { readonly bundle: object; readonly body?: object };
  /** A bundle that is sent before, whatever comes of it. */
  readonly first?: TestBundle;
  /** The transports that can carry it; left out, all. */
  readonly by?: readonly Transport[] | undefined;
}

const search = { tool: 'search', query: 'tea' };
const chain = liveChain(2, { policy: { allowed_tools: ['search', 'fetch'], max_calls: 1 } });
const used = liveCall(chain, search);
const approvable = { allowed_tools: ['search'], approve_tools: ['search'] };
const unapproved = liveCall(liveChain(2, { policy: approvable }), search);
const signed = (bundle: object, body: string): Attempt => ({
  at: '/a2a',
  headers: [['X-DRS-Bundle', encode(bundle)]],
  body,
});
const overRpc = (bundle: object) => ({ mcp: signed(bundle, toolCall()), a2a: signed(bundle, a2aCall()) });
const overHttp = (bundle: object) => ({ http: signed(bundle, httpCall) });
const own = (code: string, claims: Overrides, call: Overrides = {}): RefusedCase => ({
  ...{ name: 'its own', code, block: '', says: /./ },
  bundle: liveCall(liveChain(2, claims), search, call),
});
/** Those of {@link REFUSED} need an operator of their own, or there are none. */
const OWN = [
  // Short: a header of 17 receipts is longer than node:http takes.
  { ...own('CHAIN_TOO_DEEP', {}), block: 'A', bundle: { ...used, receipts: Array(17).fill('') } },
  own('UNTRUSTED_ROOT', {}),
  own('TOOL_SERVER_MISMATCH', {}, { tool_server: 'https://other.example' }),
  own('STATUS_INDEX_OUT_OF_RANGE', { drs_status_list_index: 2 ** 20 }),
];
/** A bundle for each code of the blocks. */
const cases = CATALOGUE.flatMap(({ code }) => {
  const isFor = ({ bundle, ...each }: RefusedCase) =>
    each.code === code && bundle instanceof Object && !Array.isArray(bundle);
  const found = REFUSED.filter(isFor);
  // One without rules of its own is refused whatever the time is.
  const bundled = found.find(({ options }) => options === undefined) ?? found[0];
  return OWN.find((each) => each.code === code) ?? bundled ?? [];
});

const OF_VERDICTS: readonly Row[] = [
  ...cases.map(({ code, name, bundle }) => ({
    ...{ code, name, asked: { bundle: bundle as object } },
    sent: { ...overHttp(bundle as object), ...overRpc(bundle as object) },
  })),
  ...[
    { code: 'INVOCATION_STALE', bundle: liveCall(chain, search, { iat: now() - 7200 }) },
    { code: 'REPLAY_DETECTED', bundle: used },
    { code: 'LIMIT_REACHED', bundle: liveCall(chain, search) },
  ].map(({ code, bundle }) => {
    const sent = { ...overHttp(bundle), mcp: signed(bundle, toolCall()) };
    return { code, name: 'after another call', sent, asked: { bundle, body: search }, first: used };
  }),
  {
    ...{ code: 'APPROVAL_REQUIRED', name: 'without a yes', asked: { bundle: unapproved, body: search } },
    sent: { ...overHttp(unapproved), mcp: signed(unapproved, toolCall()) },
  },
  { code: 'BINDING_REQUIRED', name: 'no body', sent: {}, asked: { bundle: used } },
  { code: 'BINDING_MISMATCH', name: 'another body', sent: {}, asked: { bundle: used, body: {} } },
  { code: 'gate BINDING_MISMATCH', name: 'another body', sent: { http: signed(used, '{"tool":"search"}') } },
  {
    ...{ code: 'gate TOOL_MISMATCH', name: 'another tool' },
    sent: {
      // Anew for each door: verifiers find nothing wrong, and remember it.
      get http() {
        return signed(liveCall(mcpChain, { tool: 'fetch' }), '{"tool":"fetch"}');
      },
    },
  },
  {
    ...{ code: 'gate UNKNOWN_ROUTE', name: 'a path that no route has', by: ['pure', 'v1', 'proxy', 'grpc'] },
    sent: { http: { ...signed(used, httpCall), at: '/nowhere' } },
  },
];

/** The first attack for each further code of the gate over each protocol, of those that all transports can carry if there are any. */
const OF_GATES: readonly Row[] = GATE_CATALOGUE.filter(
  ({ code }) => !OF_VERDICTS.some((row) => row.code === `gate ${code}`),
).flatMap(({ code }) =>
  (['http', 'mcp', 'a2a'] as const).flatMap((protocol): Row | [] => {
    const found = ATTACKS.filter(
      ({ outcome, ...each }) =>
        each.protocol === protocol &&
        outcome[1] === code &&
        (code !== 'MALFORMED_BUNDLE' || outcome[0] === 400),
    );
    const attack = found.find(({ by }) => by === undefined) ?? found[0];
    if (attack === undefined) return [];
    const { name, by } = attack;
    return { code: `gate ${code}`, name, sent: { [protocol]: attack.attempt() }, by };
  }),
);

const rootOf = (bundle: unknown) => {
  const [, payload = ''] = (bundle as TestBundle).receipts[0]?.split('.') ?? [];
  return (JSON.parse(Buffer.from(payload, 'base64url').toString()) as { iss: string }).iss;
};
/** The principals of bundles that are refused for something else. */
const roots: TrustedRoot[] = [
  ...new Map(
    [
      ...cases.filter(({ block }) => !/[ABC]/.test(block)),
      { bundle: used },
      { bundle: unapproved },
      { bundle: liveCall(mcpChain, {}) },
    ]
      .filter((each) => !('code' in each && each.code === 'UNTRUSTED_ROOT'))
      .map((each) => {
        const did = rootOf(each.bundle);
        const { trustedRoots: known = [] } = ('options' in each ? each.options : undefined) ?? {};
        const entry = known.find((root) => typeof root !== 'string' && root.did === did);
        return [did, (entry as TrustedRoot | undefined) ?? { did }] as const;
      }),
  ).values(),
];
const routes = { routes: [{ method: 'POST', path: '/a2a', tool: 'search' }] };

type Said = Record<string, unknown>;
/** Asks for a row at a door: what is said of it, by protocol. */
type Door = (row: Row) => Promise<Record<string, Said>>;
const closers: (() => unknown)[] = [];
const ofGates = new Map<string, Door>();
const ofVerdicts = new Map<string, Door>();

/** What a refusal says, in whichever form. */
const textOf = (body: unknown): Said => {
  const { error } = body as { error: Said };
  const data = error['data'] as Said | undefined;
  return data === undefined
    ? error
    : { code: data['code'], message: data['detail'], suggestion: data['suggestion'] };
};

const asking =
  (verify: (bundle: object, body?: object) => Promise<unknown>): Door =>
  async ({ asked, first }) => {
    if (asked === undefined) return {};
    if (first) await verify(first, asked.body);
    return { verdict: textOf(await verify(asked.bundle, asked.body)) };
  };

/** A message that an SDK has read, and that gets an answer. */
const isReadable = (text: Attempt['body']) => {
  try {
    const message = JSON.parse(String(text)) as { id?: unknown; jsonrpc?: unknown };
    return JSON.stringify(message) === text && message.id !== undefined && message.jsonrpc === '2.0';
  } catch {
    return false;
  }
};
const gate =
  (transport: Transport | 'drsMcp', ask: ways.Ask): Door =>
  async ({ sent, first, by }) => {
    const said: Record<string, Said> = {};
    for (const [protocol, attempt] of Object.entries(sent) as [Protocol, Attempt][]) {
      if (transport === 'drsMcp') {
        if (protocol !== 'mcp' || by !== undefined || attempt.method !== undefined) continue;
        if (!isReadable(attempt.body)) continue;
      } else if (by?.includes(transport) === false) continue;
      if (transport === 'middleware' && protocol === 'mcp') continue;
      if (first) await ask(protocol, { ...attempt, ...signed(first, String(attempt.body)) });
      const { status, body } = await ask(protocol, attempt);
      said[protocol] = { status, ...textOf(body) };
    }
    return said;
  };

/** The doors of an operator with these rules, each by its name. */
async function openDoors(doors: Map<string, Door>, rules: VerifierOptions, env: Record<string, string>) {
  const verifier = createVerifier({ workerThreads: 0, ...rules });
  const service = await startService({ ...env, GRPC_PORT: '0' });
  const client = new DrsClient(service.url);
  const envoy = ways.askGrpc(service);
  const hasRoutes = env['GATE_ROUTES'] !== undefined;
  const table = hasRoutes ? RouteTable.parse(JSON.stringify(routes)) : 'any';
  const tool = hasRoutes ? 'search' : 'any';
  const [here, there] = await Promise.all([
    ways.askMiddleware({ verifier, tool }),
    ways.askMiddleware({ verifier: client, tool }),
  ]);
  closers.push(
    here.close,
    there.close,
    () => envoy.close(),
    () => client.close(),
  );
  closers.push(
    () => service.stop(),
    () => verifier.close(),
  );
  doors.set(
    'verify()',
    asking((bundle, body) => verifier.verify(bundle, body && { body })),
  );
  doors.set(
    'POST /verify',
    asking((bundle, body) => service.post('/verify', { ...bundle, body }).then((answer) => answer.json())),
  );
  doors.set('decide()', gate('pure', ways.askPure({}, { by: verifier, routes: table })));
  doors.set('middleware', gate('middleware', here.ask));
  doors.set('middleware of a service', gate('middleware', there.ask));
  doors.set('drsMcp', gate('drsMcp', ways.askDrsMcp({ verifier })));
  doors.set('/v1/gate', gate('v1', ways.askV1(service)));
  doors.set('/gate', gate('proxy', ways.askProxy(service)));
  doors.set('Check', gate('grpc', envoy.ask));
  return { verifier, service };
}

beforeAll(async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-texts-'));
  const list = await listen(
    (_, res) => void res.writeHead(200, { 'Content-Type': 'application/json' }).end(listWith([])),
  );
  closers.push(
    () => rmSync(folder, { recursive: true }),
    () => list.close(),
  );
  const [rootsFile, routesFile] = ['roots.jsonl', 'routes.json'].map((name) => path.join(folder, name)) as [
    string,
    string,
  ];
  writeFileSync(rootsFile, roots.map((root) => JSON.stringify(root)).join('\n'));
  writeFileSync(routesFile, JSON.stringify(routes));
  await openDoors(ofGates, {}, {});
  const serverIdentity = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';
  const { verifier, service } = await openDoors(
    ofVerdicts,
    {
      serverIdentity,
      trustedRoots: roots,
      statusListBaseUrl: list.url,
      statusListId: LIST_ID,
      requireBinding: true,
      replayProtection: 'memory',
    },
    {
      SERVER_IDENTITY: serverIdentity,
      TRUSTED_ROOTS_FILE: rootsFile,
      GATE_ROUTES: routesFile,
      STATUS_LIST_BASE_URL: list.url,
      STATUS_LIST_ID: LIST_ID,
      REQUIRE_BINDING: '1',
      REPLAY_PROTECTION: 'memory',
      DRS_ADMIN_TOKEN: 'token-no-1',
    },
  );
  for (const what of cases.flatMap(({ revoked = [] }) => revoked)) {
    await verifier.revoke(what);
    await service.post('/admin/revoke', typeof what === 'number' ? { status_list_index: what } : what, {
      Authorization: 'Bearer token-no-1',
    });
  }
});
afterAll(async () => {
  for (const close of closers.toReversed()) await close();
});

const named = (rows: readonly Row[], doors: ReadonlyMap<string, Door>) =>
  rows.map((row) => ({ title: `${row.code}: ${Object.keys(row.sent).join()} ${row.name}`, row, doors }));

it.each([...named(OF_VERDICTS, ofVerdicts), ...named(OF_GATES, ofGates)])(
  '$title',
  async ({ row, doors }) => {
    const texts: Record<string, unknown> = {};
    const statuses = new Set<unknown>();
    for (const [name, ask] of doors) {
      for (const [protocol, { status, ...text }] of Object.entries(await ask(row))) {
        texts[`${name}: ${protocol}`] = ways.untimed(text);
        if (protocol !== 'verdict') statuses.add(status);
      }
    }
    const [first] = Object.values(texts) as Said[];
    const [some, code] = [expect.stringMatching(/\S/) as unknown, row.code.replace('gate ', '')];
    expect(first).toEqual({ code, message: some, suggestion: some });
    // Each door names the limit on bodies that it has.
    const isOwn = row.code === 'gate BODY_TOO_LARGE';
    expect(texts).toEqual(
      Object.fromEntries(
        Object.keys(texts).map((door) => [door, isOwn ? { ...first, message: some } : first]),
      ),
    );
    expect(statuses.size).toBeLessThan(2);
  },
);

it('every code is asked for here, or has a reason', () => {
  const asked = new Set([...OF_VERDICTS, ...OF_GATES].map(({ code }) => code));
  const all = [...CATALOGUE.map(({ code }) => code), ...GATE_CATALOGUE.map(({ code }) => `gate ${code}`)];
  expect(all.filter((code) => !asked.has(code)).toSorted()).toEqual(Object.keys(ELSEWHERE).toSorted());
});
