// What the checks have in common: a delegation and a call under it. Given the modules, since each check loads them its way.
/**
 * @param {typeof import('../../dist/issue/index.js')} issue
 */
exports.makeCall = async ({
  createBundle,
  createConsent,
  generateKey,
  issueInvocation,
  issueRootDelegation,
}) => {
  const [alice, bot] = [generateKey(), generateKey()];
  const root = await issueRootDelegation({
    key: alice,
    audience: bot.did,
    command: '/mcp/tools/call',
    policy: { allowed_tools: ['search'] },
    consent: createConsent({
      text: 'Bot may search.',
      locale: 'en',
      method: 'explicit-ui-click',
      sessionId: 's-1',
    }),
  });
  const args = { tool: 'search', city: 'Zürich' };
  const toolServer = 'https://tools.example';
  const invocation = await issueInvocation({ key: bot, chain: [root], args, toolServer });
  return {
    args,
    toolServer,
    trustedRoots: [alice.did],
    bundle: createBundle({ receipts: [root], invocation }),
  };
};
