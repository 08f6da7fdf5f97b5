import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { decodeJwt } from 'jose';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { callOf, challengeOf } from '../../src/approval/statement.js';
import { checkYesLine, readYesLine, type YesLine } from '../../src/cli/approval-line.js';
import { createVerifier } from '../../src/index.js';
import { generateKey } from '../../src/issue/index.js';
import { drsFetch } from '../../src/middleware/index.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { ROOTS } from '../../src/trust/line-files.js';
import { readLinesAt } from '../../src/trust/followed-lines.js';
import { Passkey } from '../approval/passkey.js';
import { kindOf, parse, type Line } from '../cli/log-members.js';
import { toolCall } from '../gate/attacks.js';
import { proofOf } from '../gate/decide.js';
import { encode, liveCall, liveChain, now, OPEN_ROUTE } from '../middleware/call.js';
import type { Chain } from '../support/chain.js';
import { requireApprovePage } from '../support/approve-page.js';
import { eventually } from '../support/eventually.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

/** What a running gate tells of a yes, and what proves it afterwards. */

const [alice, bob] = [new Passkey('P-256', { name: 'Zoë' }), new Passkey('Ed25519', { name: 'Bob' })];
const SOON_SECS = 100;
const policy = { allowed_tools: ['search'] };
const [chain, doomed, ending, watched] = [{}, {}, {}, { approve_tools: ['search'] }].map((more) =>
  liveChain(2, { cmd: '/mcp', policy: { ...policy, ...more } }),
) as [Chain, Chain, Chain, Chain];
const brief = liveChain(2, { cmd: '/mcp', policy, exp: now() + SOON_SECS });
const TOKEN = 'the-token-of-the-test';
const folder = mkdtempSync(path.join(tmpdir(), 'drs-evidence-'));
const [log, roots] = [path.join(folder, 'decisions.jsonl'), path.join(folder, 'roots.jsonl')];
let service: RunningService;

beforeAll(async () => {
  requireApprovePage();
  const approvers = [alice.approver, bob.approver];
  const root = { did: chain.parties[0]?.did, approve: { tools: ['*'] }, approvers, needed: 2 };
  const byOne = (of: Chain, more: object = {}) => ({ ...root, did: of.parties[0]?.did, needed: 1, ...more });
  const not_after = new Date((now() + SOON_SECS) * 1000).toISOString().replace('.000', '');
  const entries = [root, byOne(doomed), byOne(brief), byOne(ending, { not_after }), byOne(watched)];
  writeFileSync(roots, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
  service = await startService({
    ...{ TRUSTED_ROOTS_FILE: roots, DECISION_LOG: log, GATE_SIGNING_KEY: generateKey().toJwk().d },
    APPROVALS_URL: alice.approver.origin,
    DRS_ADMIN_TOKEN: TOKEN,
  });
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

const bundle = (under = chain) =>
  liveCall(under, { tool: 'search', query: 'tea' }, { cmd: '/mcp/tools/call' });
const call = (sent = bundle()) =>
  service.post('/gate/mcp', toolCall({ arguments: { query: 'tea' } }), { 'X-DRS-Bundle': encode(sent) });
const metrics = async () => (await fetch(`${service.url}/metrics`)).text();

interface Link {
  readonly url: string;
}

/** Says yes on the page to which a refusal leads. Not with `fetch`, whose answers are compared with the description of the service. */
async function approve(refused: Response, ...passkeys: readonly Passkey[]): Promise<string> {
  const { error } = (await refused.json()) as { error: { approval?: Link; data?: { approval: Link } } };
  const url = service.url + new URL((error.approval ?? error.data?.approval)?.url ?? '').pathname;
  const { statement } = (await (await request(`${url}/statement`)).body.json()) as { statement: string };
  for (const passkey of passkeys) {
    const signed = passkey.assert(challengeOf(Buffer.from(statement)));
    const parts = Object.entries(signed).map(([name, bytes]) => [
      name,
      (bytes as Buffer).toString('base64url'),
    ]);
    const body = { answer: 'yes', id: passkey.approver.id, ...(Object.fromEntries(parts) as object) };
    const { statusCode } = await request(url, { method: 'POST', body: JSON.stringify(body) });
    expect(statusCode).toBe(200);
  }
  return statement;
}

describe('a yes', { shuffle: false }, () => {
  it('of two persons is told to the tool server, logged, counted, and proved offline', async () => {
    const statement = await approve(await call(), alice, bob);
    expect(await metrics()).toContain('drs_approvals_open 1\n');
    const sent = bundle();
    const { status, headers } = await call(sent);
    expect(status).toBe(200);
    expect(headers.get('x-drs-approved-by')).toBe(`=?base64?${Buffer.from('Zoë, Bob').toString('base64')}?=`);
    const { approval } = decodeJwt(String(headers.get('x-drs-context')));
    const digest = Buffer.from(challengeOf(Buffer.from(statement))).toString('base64url');
    expect(approval).toMatchObject({ statement: digest, by: [{ name: 'Zoë' }, { name: 'Bob' }] });

    const lines = await eventually(() => {
      const found = parse(readFileSync(log, 'utf8'));
      expect(found).toHaveLength(6);
      return found;
    });
    for (const line of lines) expect(kindOf(line)).toHaveLength(1);
    const said = ({ endpoint, event, code }: Line) => [endpoint, event ?? code ?? 'allowed'].join(' ');
    expect(lines.map(said).toSorted()).toEqual([
      ...['approve approved', 'approve approved', 'approve asked', 'approve used'],
      ...['gate APPROVAL_REQUIRED', 'gate allowed'],
    ]);
    expect(lines.find((line) => said(line) === 'gate allowed')?.['approval']).toEqual(approval);

    const proof = callOf(proofOf(sent));
    const entry = (await readLinesAt(ROOTS, roots)).get(proof.root)?.approval ?? null;
    const other = callOf(
      proofOf(liveCall(chain, { tool: 'search', query: 'coffee' }, { cmd: '/mcp/tools/call' })),
    );
    const yeses = lines.filter(({ event }) => event === 'approved').map((line) => JSON.stringify(line));
    const checked = (of: typeof proof) =>
      yeses.map((line) => checkYesLine(readYesLine(line) as YesLine, of, entry));
    expect(checked(proof)).toEqual([{ value: 'Zoë' }, { value: 'Bob' }]);
    for (const result of checked(other)) expect(result).toHaveProperty('problem');

    const counted = await metrics();
    for (const [event, count] of Object.entries({ asked: 1, approved: 2, denied: 0, expired: 0, used: 1 }))
      expect(counted).toContain(`drs_approvals_total{event="${event}"} ${count}\n`);
    expect(counted).toContain('drs_approvals_open 0\n');
    expect(counted).toContain('drs_approval_decision_seconds_count 2\n');
  });

  it('to a call under a receipt that is revoked before the call is worth nothing', async () => {
    await approve(await call(bundle(doomed)), alice);
    await service.post(
      '/admin/revoke',
      { receipt: digestOf(doomed.receipts[1] ?? '') },
      { Authorization: `Bearer ${TOKEN}` },
    );
    const { status, headers } = await call(bundle(doomed));
    expect([status, headers.get('x-drs-code')]).toEqual([403, 'RECEIPT_REVOKED']);
    expect(await metrics()).toContain('drs_approvals_open 1\n');
  });

  it('is used at the gate once; middleware behind it does not know of it, and refuses what a receipt asks for', async () => {
    const args = { tool: 'search', query: 'coffee' };
    const body = JSON.stringify(args);
    const behind = drsFetch({ ...OPEN_ROUTE, verifier: createVerifier() }, () => new Response('ran'));
    /** What the gate says, and then the middleware, of the same request. */
    const both = async (under: Chain) => {
      const headers = {
        'X-DRS-Bundle': encode(liveCall(under, args, { cmd: '/mcp' })),
        'Content-Type': 'application/json',
      };
      const first = await service.post('/gate/http', body, headers);
      const second = await behind(new Request('https://tools.example/', { method: 'POST', headers, body }));
      return { first, second };
    };
    for (const [under, code] of [
      [ending, undefined],
      [watched, 'APPROVAL_REQUIRED'],
    ] as const) {
      const asked = await service.post('/gate/http', body, {
        'X-DRS-Bundle': encode(liveCall(under, args, { cmd: '/mcp' })),
        'Content-Type': 'application/json',
      });
      await approve(asked, alice);
      const { first, second } = await both(under);
      expect(first.status).toBe(200);
      const refusal = second.ok
        ? undefined
        : ((await second.json()) as { error: Record<string, unknown> }).error;
      expect(refusal?.['code']).toBe(code);
      // It asks nobody.
      expect(refusal ?? {}).not.toHaveProperty('approval');
      expect((await both(under)).first.headers.get('x-drs-code')).toBe('APPROVAL_REQUIRED');
    }
  });

  it.each([
    ['a receipt', brief, 'EXPIRED'],
    ['a root principal', ending, 'ROOT_EXPIRED'],
  ])('to a call under %s that ends before the call is worth nothing', async (_, under, code) => {
    await approve(await call(bundle(under)), alice);
    const open = /drs_approvals_open (\d+)/.exec(await metrics())?.[1];
    // Within the ten minutes of the yes.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3 * SOON_SECS * 1000 });
    onTestFinished(() => void vi.useRealTimers());
    const { status, headers } = await call(bundle(under));
    expect([status, headers.get('x-drs-code')]).toEqual([403, code]);
    expect(await metrics()).toContain(`drs_approvals_open ${open}\n`);
    expect(await metrics()).not.toMatch(/drs_approvals_total\{event="expired"\} [1-9]/);
  });
});
