import { createConsent, issueRootDelegation } from 'drs-verify/issue';
import { pkcs11Signer } from './pkcs11-signer.js';

// Prints a receipt by which the key in the token lets an agent search for an hour.
const [, , audience] = process.argv;
if (audience === undefined) throw new Error('name the DID of the agent: node issue.js did:key:…');
const { PKCS11_MODULE: module = '', PKCS11_PIN: pin = '' } = process.env;
const alice = pkcs11Signer({ module, token: 'drs', key: 'alice', pin });
const receipt = await issueRootDelegation({
  key: alice,
  audience,
  command: '/mcp/tools/call',
  policy: { allowed_tools: ['search'] },
  consent: createConsent({ text: 'The bot may search for you.', locale: 'en', method: 'explicit-ui-click' }),
});
alice.close();
console.log(receipt);
