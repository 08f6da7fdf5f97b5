import { OptionsError } from '../../verifier/options.js';
import { readConfiguration, type Configuration } from '../configuration/configuration.js';
import { variableOf } from '../configuration/environment.js';
import { OPTIONS } from '../configuration/variables.js';

/** What a guard must know besides its variables. */
export interface GuardSettings {
  /** Whether delegations by anybody count: the operator has said so. */
  readonly trustsAnybody: boolean;
  /** Whether standard output belongs to the protocol. */
  readonly isStdio: boolean;
}

/**
 * Reads the configuration of a guard: that of the service, without what only the service has. Nobody behind a guard checks
 * root principals, so it must know whom to trust.
 *
 * @throws OptionsError with all problems
 */
export function readGuardConfiguration(
  env: Readonly<Record<string, string | undefined>>,
  { trustsAnybody, isStdio }: GuardSettings,
): Configuration {
  const problems = [...OPTIONS]
    .flatMap(([option, { isOfServe, isSecret }]) =>
      isOfServe === true ? [variableOf(option), ...(isSecret ? [`${variableOf(option)}_FILE`] : [])] : [],
    )
    .filter((name) => (env[name]?.trim() ?? '') !== '')
    .map((name) => `${name} is set, and does nothing in drs-verify guard: unset it`);
  let configuration: Configuration;
  try {
    // One client, whose messages come one after the other: threads would only take memory.
    const isThreadless = isStdio && (env['WORKER_THREADS']?.trim() ?? '') === '';
    configuration = readConfiguration(isThreadless ? { ...env, WORKER_THREADS: '0' } : env);
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    throw new OptionsError([...problems, ...error.problems]);
  }
  const { trustedRoots, trustedRootsFile, serverIdentity, decisionLog } = configuration;
  if (trustedRoots === undefined && trustedRootsFile === undefined && !trustsAnybody)
    problems.push(
      'there is no trusted root, so that anybody could delegate to themselves: name the principals whose delegations ' +
        'count (--trusted-root did:key:…, TRUSTED_ROOTS, TRUSTED_ROOTS_FILE), or trust anybody (--trusted-root any)',
    );
  if (serverIdentity === undefined)
    problems.push(
      'the tool server has no name, so that every call would be refused: name the tool_server that calls are signed for ' +
        '(--tool-server https://…, SERVER_IDENTITY), or accept those for any (--tool-server any)',
    );
  if (isStdio && decisionLog === '-')
    problems.push(
      'DECISION_LOG is "-", and standard output is for the messages of the tool server: name a file',
    );
  if (problems.length > 0) throw new OptionsError(problems);
  return configuration;
}
