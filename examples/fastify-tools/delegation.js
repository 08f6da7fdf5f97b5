import { createConsent, generateKey, issueRootDelegation } from 'drs-verify/issue';

/**
 * Makes a delegation for the demo. In production only the person, who is asked for consent, has the person's key; the
 * agent gets the receipt.
 */
export async function demoDelegation() {
  const person = generateKey();
  const agent = generateKey();
  const receipt = await issueRootDelegation({
    key: person,
    audience: agent.did,
    command: '/tools',
    policy: { allowed_tools: ['weather'] },
    consent: createConsent({
      text: 'The agent may look up the weather for you.',
      locale: 'en',
      method: 'explicit-ui-click',
    }),
  });
  return { key: agent, chain: [receipt], toolServer: 'https://weather.example' };
}
