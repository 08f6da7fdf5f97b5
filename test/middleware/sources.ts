import { pino } from 'pino';
import { DrsClient } from '../../src/client/index.js';
import type { VerdictSource } from '../../src/middleware/index.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { startService } from '../../src/service/service.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';

interface Opened {
  readonly source: VerdictSource;
  close(): Promise<void>;
}

/** Every way to get verdicts: all must behave the same. */
export const SOURCES: readonly (readonly [string, () => Promise<Opened>])[] = [
  [
    'in this thread',
    () => {
      const verifier = createVerifier({ workerThreads: 0 });
      return Promise.resolve({ source: { verifier }, close: () => verifier.close() });
    },
  ],
  [
    'in an own pool',
    () => {
      const verifier = createVerifier({ workerThreads: 1 });
      return Promise.resolve({ source: { verifier }, close: () => verifier.close() });
    },
  ],
  [
    'from a service',
    async () => {
      const service = await startTestService();
      const verifier = new DrsClient(service.url, { timeoutMs: 60_000 });
      return {
        source: { verifier },
        close: async () => {
          await verifier.close();
          await service.close();
        },
      };
    },
  ],
];

/** A verification service of this process. */
export async function startTestService(
  env: Record<string, string> = {},
): Promise<{ url: string; close(): Promise<void> }> {
  const configuration = readConfiguration({ PORT: '0', WORKER_THREADS: '0', ...env });
  const service = await startService(configuration, pino({ level: 'silent' }));
  return { url: `http://127.0.0.1:${service.port}`, close: () => service.close() };
}
