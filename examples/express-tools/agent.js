import { createBundle, encodeBundle, issueInvocation } from 'drs-verify/issue';
import { demoDelegation } from './delegation.js';

const url = process.argv[2] ?? 'http://127.0.0.1:3000/tools';
const { key, chain, toolServer } = demoDelegation();

const args = { tool: 'weather', city: 'Zürich', estimated_cost_usd: 0.01 };
const bundle = createBundle({
  receipts: chain,
  invocation: issueInvocation({ key, chain, args, toolServer }),
});

/** @param {object} body */
async function call(body) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-DRS-Bundle': encodeBundle(bundle) },
    body: JSON.stringify(body),
  });
  return `${response.status} ${await response.text()}`;
}

console.log('another city:', await call({ ...args, city: 'Basel' }));
console.log('as signed:', await call(args));
console.log('once more:', await call(args));
