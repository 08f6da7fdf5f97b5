import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOGUE, type Verdict } from '../../src/index.js';
import { ACCEPTED, REFUSED } from '../support/cases.js';
import { FRESH, invoke, makeBundle, makeChain, NOW } from '../support/chain.js';
import { startService } from '../support/service-in-process.js';
import { metricOf, type RunningService } from '../support/service.js';

const ADMIN = { Authorization: 'Bearer token-no-1' };
const seen = new Set<string>();

async function verdictOf(service: RunningService, bundle: unknown): Promise<Verdict> {
  const response = await service.post('/verify', JSON.stringify(bundle));
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('application/json');
  const verdict = (await response.json()) as Verdict;
  if (verdict.error) seen.add(verdict.error.code);
  return verdict;
}

let service: RunningService;
beforeAll(async () => {
  service = await startService({ DRS_ADMIN_TOKEN: 'token-no-1', WORKER_THREADS: '1' });
});
afterAll(() => service.stop());

// In this order: the last test counts what the others have asked.
describe('every verdict over HTTP', { shuffle: false }, () => {
  const counts = new Map<string, number>();
  const metrics = async () => (await fetch(`${service.url}/metrics`)).text();
  let before = '';
  beforeAll(async () => void (before = await metrics()));

  it.each(REFUSED.filter(({ options }) => options === undefined))(
    'refuses $name: $code',
    async ({ bundle, code, block, says, revoked = [] }) => {
      for (const one of revoked) {
        const what = typeof one === 'number' ? { status_list_index: one } : one;
        const response = await service.post('/admin/revoke', what, ADMIN);
        expect(await response.json()).toEqual({ revoked: true, ...what });
      }
      const series = `drs_verify_errors_total{block="${block}",code="${code}"}`;
      counts.set(series, (counts.get(series) ?? 0) + 1);
      const verdict = await verdictOf(service, bundle);
      expect(verdict).toEqual({
        valid: false,
        error: { code, message: verdict.error?.message, suggestion: verdict.error?.suggestion },
      });
      expect(verdict.error?.message).toMatch(says);
    },
  );

  it.each(ACCEPTED.filter(({ options, isMomentary }) => options === undefined && !isMomentary))(
    'accepts $name',
    async ({ bundle }) => {
      const verdict = await verdictOf(service, bundle);
      expect(verdict).toMatchObject({ valid: true });
      expect(Object.keys(verdict)).toEqual(['valid', 'context']);
    },
  );

  it('is counted under its code', async () => {
    const after = await metrics();
    const asked = (series: string) => metricOf(after, series) - metricOf(before, series);
    expect([...counts.keys()].map((series) => [series, asked(series)])).toEqual([...counts]);
  });
});

describe('verdicts that an operator chooses', () => {
  it('reads SERVER_IDENTITY, TRUSTED_ROOTS, MAX_CHAIN_DEPTH and CLOCK_SKEW_SECS', async () => {
    const chain = makeChain(2);
    const stranger = makeChain(1).parties[0];
    const service = await startService({
      SERVER_IDENTITY: 'https://tools.example',
      TRUSTED_ROOTS: `${stranger?.did ?? ''}, ${chain.parties[0]?.did ?? ''}`,
      MAX_CHAIN_DEPTH: '2',
      CLOCK_SKEW_SECS: '30',
      WORKER_THREADS: '0',
    });
    try {
      const valid = invoke(chain, { tool_server: 'https://tools.example' });
      expect(await verdictOf(service, valid)).toMatchObject({ valid: true });
      expect((await verdictOf(service, invoke(chain))).error?.code).toBe('TOOL_SERVER_MISMATCH');
      expect((await verdictOf(service, makeBundle(2))).error?.code).toBe('UNTRUSTED_ROOT');
      expect((await verdictOf(service, makeBundle(3))).error?.code).toBe('CHAIN_TOO_DEEP');
    } finally {
      await service.stop();
    }
  });

  it('reads TRUSTED_ROOTS_FILE', async () => {
    const entries = [
      ['ROOT_POLICY_EXCEEDED', { policy: { allowed_tools: ['another'] } }],
      ['ROOT_NOT_YET_VALID', { not_before: '9999-01-01' }],
      ['ROOT_EXPIRED', { not_after: '1970-01-01' }],
    ] as const;
    const chains = entries.map(([, entry]) => ({ chain: makeChain(1), entry }));
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-roots-'));
    const file = path.join(folder, 'roots.jsonl');
    const roots = chains.map(({ chain, entry }) => ({ did: chain.parties[0]?.did, ...entry }));
    writeFileSync(file, roots.map((root) => JSON.stringify(root)).join('\n'));
    const service = await startService({ TRUSTED_ROOTS_FILE: file, WORKER_THREADS: '0' });
    try {
      for (const [at, [code]] of entries.entries()) {
        const bundle = invoke(chains[at]?.chain ?? makeChain(1));
        expect((await verdictOf(service, bundle)).error?.code).toBe(code);
      }
    } finally {
      await service.stop();
      rmSync(folder, { recursive: true });
    }
  });

  it('asks the status list, and fails closed without one', async () => {
    const bits = Buffer.alloc(16);
    bits[0] = 0x40; // index 1
    let isUp = true;
    const list: Server = createServer((_, res) => {
      if (!isUp) res.writeHead(500).end();
      else {
        res.writeHead(200, { 'Content-Type': 'application/json' }).end(
          JSON.stringify({
            '@context': ['https://www.w3.org/ns/credentials/v2'],
            type: ['VerifiableCredential', 'BitstringStatusListCredential'],
            issuer: 'did:example:issuer',
            credentialSubject: {
              type: 'BitstringStatusList',
              statusPurpose: 'revocation',
              encodedList: `u${gzipSync(bits).toString('base64url')}`,
            },
          }),
        );
      }
    });
    await new Promise<void>((resolve) => list.listen(0, '127.0.0.1', resolve));
    const service = await startService({
      STATUS_LIST_BASE_URL: `http://127.0.0.1:${(list.address() as AddressInfo).port}/list`,
      // This list has no name.
      STATUS_LIST_ID: 'any',
      STATUS_CACHE_TTL_SECS: '1',
      DRS_ADMIN_TOKEN: 'token-no-1',
    });
    const withIndex = (index: number) => invoke(makeChain(2, { 1: { drs_status_list_index: index } }));
    try {
      expect(await verdictOf(service, withIndex(0))).toMatchObject({ valid: true });
      expect((await verdictOf(service, withIndex(1))).error).toMatchObject({
        code: 'RECEIPT_REVOKED',
        message: expect.stringContaining('remote') as string,
      });
      expect((await verdictOf(service, withIndex(128))).error?.code).toBe('STATUS_INDEX_OUT_OF_RANGE');
      await service.post('/admin/revoke', { status_list_index: 2 }, ADMIN);
      expect((await verdictOf(service, withIndex(2))).error).toMatchObject({
        code: 'RECEIPT_REVOKED',
        message: expect.stringContaining('local') as string,
      });
      isUp = false;
      await expect
        .poll(async () => (await verdictOf(service, withIndex(0))).error?.code)
        .toBe('REVOCATION_CHECK_FAILED');
      expect(await verdictOf(service, makeBundle(2))).toMatchObject({ valid: true });
      isUp = true;
      // At most one fetch starts in a second.
      await expect.poll(() => verdictOf(service, withIndex(0))).toMatchObject({ valid: true });
    } finally {
      await service.stop();
      list.close();
      list.closeAllConnections();
    }
  });
});

describe('a service that requires the binding', () => {
  it('refuses what is not bound to the call, for callers that read only valid', async () => {
    const service = await startService({ ...FRESH, REQUIRE_BINDING: '1', REPLAY_PROTECTION: 'memory' });
    const bundle = makeBundle(2);
    const args = { estimated_cost_usd: 0.05, query: 'tea', tool: 'search' };
    try {
      const bare = await verdictOf(service, bundle);
      expect(bare).toMatchObject({ valid: false, error: { code: 'BINDING_REQUIRED' } });
      expect(Object.keys(bare)).toEqual(['valid', 'error']);
      const other = await verdictOf(service, { ...bundle, body: { ...args, query: 'gold' } });
      expect(other).toMatchObject({ valid: false, error: { code: 'BINDING_MISMATCH' }, binding: 'mismatch' });
      const broken = JSON.stringify({ ...bundle, body: 0 }).replace('"body":0', '"body":9007199254740993');
      expect(await (await service.post('/verify', broken)).json()).toMatchObject({
        ...{ valid: false, error: { code: 'BINDING_MISMATCH' }, binding: 'invalid_body' },
      });
      // None of these has used up the invocation.
      expect(await verdictOf(service, { ...bundle, body: args })).toMatchObject({
        valid: true,
        binding: 'match',
      });
      expect(await verdictOf(service, { ...bundle, body: args })).toMatchObject({
        ...{ valid: false, error: { code: 'REPLAY_DETECTED' } },
      });
    } finally {
      await service.stop();
    }
  });
});

describe('details', () => {
  it('are given where they are asked for, and only to what is valid', async () => {
    // Long after the end of any run of tests: NOW is when the first of its files began.
    const chain = makeChain(2, { 0: { exp: NOW + 3600 }, 1: { exp: NOW + 3500 } });
    const bundle = invoke(chain);
    const plain = await (await service.post('/verify', bundle)).text();
    const detailed = await verdictOf(service, { ...bundle, details: true, body: {} });
    expect(detailed.details).toEqual({
      agent: chain.parties[2]?.did,
      command: '/mcp/tools/call',
      tool: 'search',
      invocation: 'inv:0b1c2d3e',
      receipts: Array(2).fill('dr:7a1f6f0e-6a3f-4d5a-9c0e-1f2a3b4c5d6e'),
      root_type: 'human',
      consent_record: expect.objectContaining({ session_id: 'session-1' }) as unknown,
      expires_at: NOW + 3500,
      binding: 'mismatch',
    });
    expect(JSON.stringify({ valid: true, context: detailed.context })).toBe(plain);
    for (const details of [1, 'true', null, false])
      expect(await (await service.post('/verify', { ...bundle, details })).text()).toBe(plain);
    const refused = await verdictOf(service, { ...invoke(chain, { args: {} }), details: true });
    expect(Object.keys(refused)).toEqual(['valid', 'error']);
  });
});

// In the end, in whatever order they ran: every code of blocks A to F was seen over HTTP, one of them by did-web.test.ts.
afterAll(() => {
  const all = CATALOGUE.filter(({ block }) => block.length === 1).map(({ code }) => code);
  const expected = all.filter((code) => code !== 'DID_RESOLUTION_FAILED');
  expect([...seen]).toEqual(expect.arrayContaining(expected));
});
