import { OptionsError } from '../../src/verifier/options.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';

/** The problems with an environment that the service reports when it starts. */
export function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    readConfiguration(env);
  } catch (error) {
    if (error instanceof OptionsError) return error.problems;
    throw error;
  }
  return [];
}
