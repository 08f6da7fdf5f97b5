import { createConsent, generateKey, issueRootDelegation } from 'drs-verify/issue';

/**
 * A delegation made up on the spot. In earnest the person's key stays with the person, who is asked for consent, and
 * the agent gets the receipt alone.
 */
export function demoDelegation() {
  const person = generateKey();
  const agent = generateKey();
  const receipt = issueRootDelegation({
    key: person,
    audience: agent.did,
    command: '/tools',
    policy: { allowed_tools: ['weather'], max_cost_usd: 1 },
    consent: createConsent({
      text: 'The agent may look up the weather for you.',
      locale: 'en',
      method: 'explicit-ui-click',
    }),
  });
  return { key: agent, chain: [receipt], toolServer: 'https://weather.example' };
}
