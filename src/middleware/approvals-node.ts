import type { ApprovalsOptions } from './open-approvals.js';
import type { Approvals } from './options.js';

// `#approvals` in package.json.

export type { ApprovalsOptions } from './open-approvals.js';

/**
 * Asks persons for their yes to calls that need one, on a page of this server: put `page` or `fetch` in front of its routes, and the
 * result into the option `approvals` of each middleware.
 *
 * @throws TypeError (the promise rejects) naming every problem with the options; Error if the verifier cannot be used for this, or Redis
 * @example
 * const approvals = await openApprovals({ url: 'https://tools.example', verifier, replayStore });
 * app.use(approvals.page);
 * app.post('/pay', drsMiddleware({ verifier, replayStore, trustedRoots, serverIdentity, tool: 'pay', approvals }), pay);
 */
export async function openApprovals(options: ApprovalsOptions): Promise<Approvals> {
  // Loaded on first use: it loads native code, which the rest of the middleware does without.
  const { openPage } = await import('./open-approvals.js');
  return openPage(options);
}
