import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { ECHO, startGuard } from '../relay/guard-process.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { eventually } from '../support/eventually.js';
import { hasProcess, metricOf, startService, type RunningService } from '../support/service.js';

/** A gate on trial, as its proxies and tool servers see it; `test/service/gate-decider.test.ts` has what passes and what does not. */

const folder = mkdtempSync(path.join(tmpdir(), 'drs-trial-'));
const DECISIONS = path.join(folder, 'decisions.jsonl');
let service: RunningService;
beforeAll(async () => {
  service = await startService({
    ...{ GATE_MODE: 'observe', DECISION_LOG: DECISIONS, LOG_REFUSALS: 'all', GRPC_PORT: '0' },
    ...{ REQUIRE_BINDING: '1', WORKER_THREADS: '0' },
  });
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

const bare = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search' } };
const forged = { 'X-DRS-Observed': 'EXPIRED', 'X-DRS-Agent': 'did:key:zBoss' };
const decisions = () =>
  readFileSync(DECISIONS, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

// The third counts what those before it have asked.
describe('a service on trial', { shuffle: false }, () => {
  it('tells proxies what it would have denied, and has the headers of callers removed', async () => {
    const once = mcpBundle();
    const ask = (body: string | object, headers: object = {}) =>
      service.post('/gate/mcp', body, { ...forged, ...headers });
    const allowed = await ask(toolCall(), { 'X-DRS-Bundle': once });
    expect([allowed.status, allowed.headers.get('x-drs-observed')]).toEqual([200, null]);
    expect(allowed.headers.get('x-envoy-auth-headers-to-remove')).toContain('x-drs-observed');
    for (const [code, answer] of [
      ['REPLAY_DETECTED', await ask(toolCall(), { 'X-DRS-Bundle': once })],
      ['MISSING_BUNDLE', await ask(bare)],
    ] as const) {
      expect([answer.status, answer.headers.get('x-drs-observed')]).toEqual([200, code]);
      const removed = answer.headers.get('x-envoy-auth-headers-to-remove')?.split(',');
      expect(removed).toContain('x-drs-agent');
      expect(removed).not.toContain('x-drs-observed');
      expect(answer.headers.get('x-drs-agent')).toBeNull();
    }
    const hidden = await ask(bare, { 'X-HTTP-Method-Override': 'GET' });
    expect([hidden.status, hidden.headers.get('x-drs-code')]).toEqual([405, 'METHOD_NOT_ALLOWED']);
    const described = await service.post('/v1/gate', { protocol: 'mcp', headers: {}, body: bare });
    const passed = { allow: true, gated: false, status: 200, observed: 'MISSING_BUNDLE' };
    expect(await described.json()).toEqual(passed);
  });

  it('tells gateways over gRPC', async () => {
    const envoy = clientOf(AUTHORIZATION, grpcPortOf(service));
    const http = {
      method: 'POST',
      path: '/mcp',
      headers: forged,
      raw_body: Buffer.from(JSON.stringify(bare)),
    };
    const header = { key: 'x-drs-observed', value: 'MISSING_BUNDLE' };
    expect(await callOnce(envoy, 'Check', { attributes: { request: { http } } })).toMatchObject({
      ok_response: { headers: [{ header }] },
    });
    envoy.close();
  });

  it('counts and records each, and says that it is on trial', async () => {
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    const count = (decision: string, code: string) =>
      metricOf(metrics, `drs_gate_decisions_total{protocol="mcp",decision="${decision}",code="${code}"}`);
    expect(count('observe', 'MISSING_BUNDLE')).toBe(3);
    expect(count('observe', 'REPLAY_DETECTED')).toBe(1);
    expect(count('deny', 'METHOD_NOT_ALLOWED')).toBe(1);
    expect(await (await fetch(`${service.url}/readyz`)).json()).toEqual({
      status: 'ready',
      gate_mode: 'observe',
    });
    const warned = { level: 40, msg: expect.stringMatching(/^GATE_MODE is observe/) as string };
    expect(service.log).toContainEqual(expect.objectContaining(warned));
    await eventually(() => {
      const observed = decisions().filter((line) => line['observed'] === true);
      expect(observed).toHaveLength(4);
      const [replayed, bundleless] = observed;
      expect(replayed).toMatchObject({ valid: true, code: 'REPLAY_DETECTED', tool: 'search' });
      expect(bundleless).toMatchObject({ code: 'MISSING_BUNDLE', tool: 'search' });
      expect(service.log).toContainEqual(
        expect.objectContaining({ msg: 'observed', code: 'REPLAY_DETECTED' }),
      );
    });
    const refused = service.log.filter(({ msg }) => msg === 'refused');
    expect(refused.map(({ code }) => code)).toEqual(['METHOD_NOT_ALLOWED']);
  });

  it('leaves /verify as it is', async () => {
    const answer = await service.post('/verify', liveCall(liveChain(), { tool: 'search' }));
    expect(await answer.json()).toMatchObject({ valid: false, error: { code: 'BINDING_REQUIRED' } });
  });
});

it.runIf(hasProcess)(
  'tells a tool server behind a guard over stdio, and takes off what callers say',
  async () => {
    const options = ['--trusted-root', 'any', '--tool-server', 'any'];
    const guard = startGuard(options, ECHO, { DRS_GATE_MODE: 'observe' });
    const observed = 'xyz.okeyamy.drs/observed';
    const spoofed = { [observed]: 'EXPIRED', 'xyz.okeyamy.drs/context': { agent: 'boss' }, kept: 1 };
    const call = (id: number, more: object = {}) => ({
      ...{ ...bare, id, params: { ...bare.params, arguments: {}, _meta: { ...spoofed, ...more } } },
    });
    const signed = encode(
      liveCall(liveChain(1, { cmd: '/mcp' }), { tool: 'search' }, { cmd: '/mcp/tools/call' }),
    );
    guard.say(call(1));
    guard.say(call(2, { 'X-DRS-Bundle': signed }));
    guard.say([call(3)]);
    const metaOf = (line = '{}') =>
      (JSON.parse(line) as { params: { _meta: Record<string, unknown> } }).params._meta;
    await eventually(async () => {
      const said = await guard.heard(5);
      const echoed = said.flatMap(({ params }) => params?.line ?? []);
      expect(metaOf(echoed[0])).toEqual({ kept: 1, [observed]: 'MISSING_BUNDLE' });
      expect(metaOf(echoed[1])).toEqual({
        kept: 1,
        'xyz.okeyamy.drs/context': expect.objectContaining({ tool: 'search' }) as object,
      });
      expect(said).toContainEqual(
        expect.objectContaining({
          error: expect.objectContaining({
            data: expect.objectContaining({ code: 'BATCH_NOT_SUPPORTED' }) as object,
          }) as object,
        }),
      );
    });
    expect(guard.stderr()).toContain('DRS_GATE_MODE is observe: the gate protects nobody');
  },
);
