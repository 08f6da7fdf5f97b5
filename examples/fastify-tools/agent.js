import { signFetch } from 'drs-verify/middleware';
import { demoDelegation } from './delegation.js';

const url = process.argv[2] ?? 'http://127.0.0.1:3000/weather';
const init = {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ tool: 'weather', city: 'Zürich' }),
};

/** @param {Response} response */
const show = async (response) => `${response.status} ${await response.text()}`;
console.log('signed:', await show(await signFetch(await demoDelegation())(url, init)));
console.log('not signed:', await show(await fetch(url, init)));
