import type { Approvals } from './options.js';

// `#approvals` in package.json where there is no Node.

/** @throws Error always: passkeys are verified with node:crypto */
export function openApprovals(): Promise<Approvals> {
  return Promise.reject(
    new Error(
      'openApprovals needs Node.js; elsewhere leave out approvals: calls that need a yes are refused',
    ),
  );
}
