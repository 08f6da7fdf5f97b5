// The service, with the front end that it chooses itself.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import * as issue from 'drs-verify/issue';
import { makeCall } from './call.cjs';

const { args, bundle } = await makeCall(issue);
const command = path.resolve('node_modules/drs-verify/scripts/drs.mjs');
const child = spawn(process.execPath, [command, 'serve'], {
  env: { PATH: process.env.PATH, PORT: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
});
/** @type {(text: string) => unknown} */
const parse = JSON.parse;
let choice = '';
/** @type {Promise<string>} */
const listening = new Promise((resolve, reject) => {
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { msg, url } = /** @type {{ msg: string, url?: string }} */ (parse(line));
    if (msg.startsWith('the front end is')) choice = msg;
    if (msg === 'listening') resolve(String(url));
  });
  child.once('exit', (/** @type {number | null} */ code) => reject(new Error(`it ended with ${code}`)));
});
const url = await listening;
const response = await fetch(`${url}/verify`, {
  method: 'POST',
  body: JSON.stringify({ ...bundle, body: args }),
});
const verdict = await response.text();
if (!verdict.startsWith('{"valid":true') || !verdict.includes('"binding":"match"')) throw new Error(verdict);
child.kill('SIGTERM');
await once(child, 'exit');
if (child.exitCode !== 0) throw new Error(`the service ended with ${child.exitCode}`);
console.log(`Node ${process.versions.node}: ${choice}`);
