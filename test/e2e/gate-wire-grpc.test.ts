import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

interface Call {
  readonly name: string;
  readonly method: string;
  readonly expected: 'allow' | readonly ['deny', number, string];
  readonly message: object;
}

const file = new URL('../gate/wire/grpc.json', import.meta.url);
const { calls } = JSON.parse(readFileSync(file, 'utf8')) as { calls: Call[] };

const tampered = toolCall({ arguments: { query: 'coffee' } });
const paramsOf = (message: string) => JSON.stringify((JSON.parse(message) as { params: object }).params);
/** What stands for bytes. */
const BYTES: Record<string, string> = {
  '{{call}}': toolCall(),
  '{{tampered}}': tampered,
  '{{params}}': paramsOf(toolCall()),
  '{{tampered params}}': paramsOf(tampered),
};

function fill(message: object): object {
  const bundle = mcpBundle();
  return JSON.parse(JSON.stringify(message), (name, value: unknown) => {
    if (typeof value !== 'string') return value;
    if (value === '{{bundle bytes}}') return Buffer.from(bundle);
    const bytes = BYTES[value];
    if (bytes !== undefined) return Buffer.from(bytes);
    const text = value.replaceAll('{{bundle}}', bundle);
    return name === 'raw_value' ? Buffer.from(text) : text;
  }) as object;
}

let gate: RunningService;
beforeAll(async () => {
  gate = await startService({ GRPC_PORT: '0' });
});
afterAll(() => gate.stop());

describe('what the recipes make proxies send over gRPC', () => {
  it.each(calls)('$name', async ({ method, expected, message }) => {
    const [service = '', name = ''] = method.split('/');
    const client = clientOf(service, grpcPortOf(gate));
    try {
      const answer = JSON.stringify(await callOnce(client, name, fill(message)), (_, value: unknown) =>
        // Buffers, which JSON makes objects of.
        (value as { type?: unknown } | null)?.type === 'Buffer'
          ? Buffer.from((value as { data: number[] }).data).toString()
          : value,
      );
      if (expected === 'allow') {
        expect(answer).toContain('x-drs-agent');
        expect(answer).not.toContain('DRS: ');
      } else expect(answer).toContain(`DRS: ${expected[2]}`);
    } finally {
      client.close();
    }
  });
});
