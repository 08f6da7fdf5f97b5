import { pino } from 'pino';
import { readConfiguration, warningsAbout } from '../../src/service/configuration/configuration.js';
import { factsOf } from '../../src/service/main.js';
import { startService as openService } from '../../src/service/service.js';
import { OptionsError } from '../../src/verifier/options.js';
import { FRONT_END } from './front-end.js';
import { checkAnswersOf } from './openapi.js';
import { postTo } from './post.js';
import type { Environment, RunningService } from './service.js';

export { metricOf, runToExit, SERVICE_COMMAND } from './service.js';

export const hasProcess = false;

/**
 * Runs the service in this process, which takes a tenth of the time that a process takes to start: for tests of what it
 * answers to some settings, beside others of the same file or folder that start the process. In mutation runs it takes the
 * place of `startService` of `service.ts` everywhere, since faults are planted here; tests of what only a process of its
 * own shows ask `hasProcess`.
 *
 * A test that `scripts/planted-faults.mjs` names needs a process: its faults are in `dist/`.
 */
export async function startService(env: Environment = {}): Promise<RunningService> {
  const log: Record<string, unknown>[] = [];
  const all = {
    ...{ PORT: '0', FRONT_END, WORKER_THREADS: '0' },
    ...{ GATE_ROUTES: 'any', SERVER_IDENTITY: 'any' },
    ...env,
  };
  const configuration = readConfiguration(all);
  const serializers = { err: pino.stdSerializers.errWithCause };
  const logger = pino(
    { name: 'drs-verify', level: configuration.logLevel, serializers },
    { write: (line: string) => void log.push(JSON.parse(line) as Record<string, unknown>) },
  );
  for (const warning of warningsAbout(configuration)) logger.warn(warning);
  const service = await openService(configuration, logger);
  const facts = factsOf(configuration, service);
  const { url } = facts;
  logger.info(facts, 'listening');
  const unchecked = checkAnswersOf(url);
  return {
    ...{ url, port: service.port, log },
    get child(): never {
      throw new Error('this service runs in the process of the test');
    },
    post: postTo(url),
    stop: async () => {
      unchecked();
      await service.close();
      return 0;
    },
  };
}

/** Why a service does not start, and the exit code that its process would have. The start must fail. */
export async function failureOf(env: Environment): Promise<{ code: 1 | 2; says: string }> {
  let service: RunningService;
  try {
    service = await startService(env);
  } catch (error) {
    return { code: error instanceof OptionsError ? 2 : 1, says: (error as Error).message };
  }
  await service.stop();
  throw new Error('the service has started, expected that it does not');
}
