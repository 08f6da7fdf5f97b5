import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { command, RedisServer } from '../usage/redis-server.js';
import { eventually } from '../support/eventually.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { startService, type RunningService } from '../support/service.js';
import { needs } from '../support/programs.js';

// In this order: the last ones have Redis lose what it had.
describe(
  'GATE_REPLAY=redis, and REPLAY_PROTECTION=redis',
  { ...needs('redis-server'), shuffle: false },
  () => {
    let redis: RedisServer;
    let gates: RunningService[] = [];
    beforeAll(async () => {
      redis = await RedisServer.start();
      // What refuses here is the lost connection, never a slow machine.
      const env = {
        GATE_REPLAY: 'redis',
        REPLAY_PROTECTION: 'redis',
        REPLAY_WINDOW_SECS: '300',
        // After a loss, calls are refused for as long as clocks may differ.
        CLOCK_SKEW_SECS: '1',
        REDIS_URL: redis.url,
        REDIS_TIMEOUT_MS: '20000',
        WORKER_THREADS: '0',
      };
      // Two processes: the one of the test, and another.
      gates = await Promise.all([startService(env), startServiceHere(env)]);
    });
    afterAll(async () => {
      await Promise.all(gates.map((gate) => gate.stop()));
      await redis.stop();
    });

    const ask = async (at: number, bundle: string, body = toolCall()) => {
      const headers = {
        'X-DRS-Bundle': bundle,
        'Content-Type': 'application/json',
      };
      const response = await fetch(`${gates[at]?.url}/gate/mcp`, {
        method: 'POST',
        headers,
        body,
      });
      return response.headers.get('x-drs-code') ?? String(response.status);
    };

    const verify = async (at: number, bundle: string) => {
      const response = await gates[at]?.post('/verify', Buffer.from(bundle, 'base64url'));
      return ((await response?.json()) as { error?: { code: string } }).error?.code ?? 'valid';
    };

    const allowed = ['200', 'valid', '200', 'valid'];
    /** Each gate, and each of its stores, connects and looks for itself. */
    const all = async () => [
      ...[await ask(0, mcpBundle()), await verify(0, mcpBundle())],
      ...[await ask(1, mcpBundle()), await verify(1, mcpBundle())],
    ];

    it('lets a call pass once at one of two gates, whichever it comes to first', async () => {
      const bundle = mcpBundle();
      expect(await ask(0, bundle, toolCall({ arguments: {} }))).toBe('BINDING_MISMATCH');
      expect([await ask(1, bundle), await ask(0, bundle), await ask(1, bundle)]).toEqual([
        '200',
        'REPLAY_DETECTED',
        'REPLAY_DETECTED',
      ]);
      const racing = mcpBundle();
      const codes = await Promise.all(Array.from({ length: 20 }, (_, at) => ask(at % 2, racing)));
      expect(codes.sort()).toEqual(['200', ...Array.from({ length: 19 }, () => 'REPLAY_DETECTED')]);
    });

    it('lets a call pass the gate and /verify, each once: both have a record of their own', async () => {
      const bundle = mcpBundle();
      expect([
        await ask(0, bundle),
        await verify(1, bundle),
        await verify(0, bundle),
        await ask(1, bundle),
      ]).toEqual(['200', 'valid', 'REPLAY_DETECTED', 'REPLAY_DETECTED']);
    });

    it('refuses what is older than REPLAY_WINDOW_SECS', async () => {
      const now = Math.floor(Date.now() / 1000);
      const signed = (secsAgo: number) => mcpBundle(undefined, { iat: now - secsAgo });
      expect([await ask(0, signed(200)), await ask(0, signed(400))]).toEqual(['200', 'INVOCATION_STALE']);
    });

    it('refuses every call while Redis may evict, though it did not when the service started', async () => {
      expect(await all()).toEqual(allowed);
      await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random']);
      const refused = allowed.map(() => 'REPLAY_STORE_UNAVAILABLE');
      await eventually(async () => expect(await all()).toEqual(refused));
      await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'noeviction']);
      await eventually(async () => expect(await all()).toEqual(allowed));
      await eventually(() => {
        const lines = gates[0]?.log.filter(({ msg }) => String(msg).includes('may evict used invocations'));
        expect(lines?.map(({ level }) => level)).toEqual([50, 50]);
      });
    });

    it('refuses calls while Redis is gone, and no others; and recovers', async () => {
      await redis.kill();
      expect(await verify(0, mcpBundle())).toBe('REPLAY_STORE_UNAVAILABLE');
      const [kept, list] = [mcpBundle(), toolCall({}, { method: 'tools/list' })];
      expect(await ask(0, kept)).toBe('REPLAY_STORE_UNAVAILABLE');
      expect(await ask(1, mcpBundle(), list)).toBe('200');
      await redis.restart();
      // Nobody knows whether what was signed before was used.
      await eventually(async () => expect(await ask(1, mcpBundle())).toBe('200'));
      expect(await ask(1, kept)).toBe('REPLAY_STORE_UNAVAILABLE');
      await eventually(async () => expect(await all()).toEqual(allowed));
    });
  },
);
