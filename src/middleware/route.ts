import type { RouteExpectation } from '../gate/index.js';
import type { RouteOptions } from './options.js';

/**
 * The tool and the command of a request, according to the operator's options.
 *
 * @throws TypeError if a function in the options does not return a string; also any error that the function throws
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
