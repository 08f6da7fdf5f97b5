import { createBundle, encodeBundle, issueInvocation } from 'drs-verify/issue';
import { signFetch } from 'drs-verify/middleware';
import { demoDelegation } from './delegation.js';

const url = process.argv[2] ?? 'http://127.0.0.1:3000/weather';
const delegation = await demoDelegation();

/** @param {Response} response */
const show = async (response) => `${response.status} ${await response.text()}`;

// What an agent does: each request is signed as it leaves.
const call = signFetch(delegation);
const args = { tool: 'weather', city: 'Zürich', estimated_cost_usd: 0.01 };
const signed = { method: 'POST', body: JSON.stringify(args) };
console.log('as signed:', await show(await call(url, signed)));

// What it must not do, which takes signing by hand.
/**
 * @param {object} body
 * @param {import('drs-verify/issue').JsonObject} signedArgs
 */
async function bundleAndBody(body, signedArgs) {
  const { key, chain, toolServer } = delegation;
  const invocation = await issueInvocation({ key, chain, args: signedArgs, toolServer });
  const bundle = encodeBundle(createBundle({ receipts: chain, invocation }));
  const headers = { 'Content-Type': 'application/json', 'X-DRS-Bundle': bundle };
  return { method: 'POST', headers, body: JSON.stringify(body) };
}
const basel = await bundleAndBody({ ...args, city: 'Basel' }, args);
console.log('another city:', await show(await fetch(url, basel)));
const news = { ...args, tool: 'news' };
console.log('another tool:', await show(await fetch(url, await bundleAndBody(news, news))));
const unstated = JSON.stringify({ tool: args.tool, city: args.city });
console.log('no cost:', await show(await call(url, { ...signed, body: unstated })));
const used = await bundleAndBody(args, args);
await fetch(url, used);
console.log('once more:', await show(await fetch(url, used)));
