import type { RouteExpectation } from '../gate/index.js';
import type { RouteOptions } from './options.js';

/**
 * What an operator says a request is for.
 *
 * @throws TypeError if a function of the options does not give a string, and whatever it throws
 */
export function routeOf<R>({ tool, command }: RouteOptions<R>, request: R): RouteExpectation {
  return {
    tool: tool === 'any' ? null : ask('tool', tool, request),
    command: ask('command', command, request),
  };
}

function ask<R>(
  name: 'tool' | 'command',
  option: string | ((request: R) => string) | undefined,
  request: R,
): string | null {
  if (typeof option !== 'function') return option ?? null;
  const answer: unknown = option(request);
  if (typeof answer === 'string' && answer !== '') return answer;
  throw new TypeError(
    `the function ${name} of the DRS options gave ${String(answer)}, expected a non-empty string`,
  );
}
