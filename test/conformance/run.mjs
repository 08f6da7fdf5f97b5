#!/usr/bin/env node
// Puts every question of vectors.json to a verifier and compares the answers. Needs only Node; see docs/conformance.md.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const HELP = `node test/conformance/run.mjs --url <address> | --command <command> [options]

  --url <address>       a service with POST /verify, set up for one profile, such as http://127.0.0.1:8080
  --command <command>   a program that answers a question a line (docs/conformance.md); run by a shell
  --profile <name>      with --url: the profile for which the service is set up (plain)
  --admin-token <text>  with --url: revokes what the profile "revoked" wants, at /admin/revoke
  --gate                asks for decisions of a gate as well; over HTTP at POST /v1/gate, set up with
                        GATE_REPLAY=off, and SERVER_IDENTITY=any unless the profile names one
  --usage               with --command: asks as well for decisions of a gate that counts calls and their cost
`;

/**
 * @typedef {{ id: string, description: string, kind: string, profile?: string, expected: Record<string, unknown>,
 *   [member: string]: unknown }} Vector
 */

/** @returns {{ profiles: Record<string, object>, vectors: Vector[] }} */
export function readVectors() {
  return JSON.parse(readFileSync(new URL('vectors.json', import.meta.url), 'utf8'));
}

/** The difference between an answer and the expected one; `null` if there is none. */
export function findDifference(vector, answer) {
  for (const [name, expected] of Object.entries(vector.expected))
    if (stable(answer?.[name]) !== stable(expected))
      return `${name} is ${stable(answer?.[name])}, expected ${stable(expected)}`;
  for (const name of ['code', 'binding'])
    if (vector.expected[name] === undefined && answer?.[name] !== undefined)
      return `${name} is ${stable(answer[name])}, expected none`;
  return null;
}

/** Runs vectors. `ask` returns an answer in the form of `expected`. */
export async function runVectors(vectors, ask) {
  const failures = [];
  for (const vector of vectors) {
    let difference;
    try {
      difference = findDifference(vector, await ask(vector));
    } catch (error) {
      difference = `no answer: ${error.message}`;
    }
    if (difference !== null) failures.push({ id: vector.id, description: vector.description, difference });
  }
  return { asked: vectors.length, failures };
}

function stable(value) {
  if (Array.isArray(value)) return `[${value.map(stable).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'absent';
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${stable(value[name])}`).join()}}`;
}

/** Asks a service. Its clock cannot be set, so it only gets questions whose answer does not depend on the time. */
export function overHttp(url) {
  const post = (path, body) =>
    fetch(new URL(path, url), { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return async (vector) => {
    if (vector.kind === 'gate') {
      const answer = await post('/v1/gate', JSON.stringify(vector.request));
      if (answer.status !== 200) return { status: answer.status };
      return decisionOf(await answer.json());
    }
    const answer = await post('/verify', vector.request);
    return answer.status === 200 ? flat(await answer.json()) : { status: answer.status };
  };
}

/** A decision of `/v1/gate` in the form of the vectors. */
export function decisionOf({ allow, gated, status, response }) {
  if (!gated) return { decision: 'pass' };
  if (allow) return { decision: 'allow' };
  return { decision: 'deny', status, code: response?.error?.data?.code ?? response?.error?.code };
}

/**
 * A verdict in the form of the vectors: the code beside `valid`, without texts for people, and without what not every verifier
 * says: `unenforced`, `tool_server`.
 */
export function flat({ valid, error, binding, context }) {
  const { unenforced: _, tool_server: __, ...facts } = context ?? {};
  return {
    valid,
    ...(error && { code: error.code }),
    ...(binding !== undefined && { binding }),
    ...(context && { context: facts }),
  };
}

/**
 * The lines of a text, which only line feeds end. For `readline` of Node 24 and later, U+2028 and U+2029 end lines, too, which
 * JSON may hold.
 */
export async function* linesOf(input) {
  let rest = '';
  for await (const chunk of input.setEncoding('utf8')) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    yield* lines;
  }
  if (rest !== '') yield rest;
}

/** Asks a program. Each question and each answer is one line; answers come in the order of the questions. */
export function byCommand(command, profiles) {
  const child = spawn(command, { shell: true, stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = linesOf(child.stdout);
  return {
    ask: async ({ id, kind, profile, now, request, bodyText, steps }) => {
      const question = { id, kind, now, request, bodyText, steps, ...profiles[profile] };
      child.stdin.write(`${JSON.stringify(question)}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error('the program has ended');
      return JSON.parse(value);
    },
    close: () => child.stdin.end(),
  };
}

/** The member of `POST /admin/revoke` for an index, a digest or a DID. */
function memberOf(target) {
  if (typeof target === 'number') return 'status_list_index';
  return target.startsWith('did:') ? 'did' : 'receipt';
}

async function main() {
  const { values } = parseArgs({
    options: {
      url: { type: 'string' },
      command: { type: 'string' },
      profile: { type: 'string', default: 'plain' },
      'admin-token': { type: 'string' },
      gate: { type: 'boolean', default: false },
      usage: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const { profiles, vectors } = readVectors();
  const profile = profiles[values.profile];
  if ((values.url === undefined) === (values.command === undefined) || profile === undefined) {
    console.error(HELP + `profiles: ${Object.keys(profiles).join(', ')}`);
    return 2;
  }
  let result;
  if (values.command !== undefined) {
    const program = byCommand(values.command, profiles);
    result = await runVectors(
      vectors.filter(({ kind }) => kind === 'verify' || (kind === 'usage' ? values.usage : values.gate)),
      program.ask,
    );
    program.close();
  } else {
    for (const target of values['admin-token'] === undefined ? [] : profile.revocation.local) {
      const answer = await fetch(new URL('/admin/revoke', values.url), {
        method: 'POST',
        headers: { authorization: `Bearer ${values['admin-token']}`, 'content-type': 'application/json' },
        body: JSON.stringify({ [memberOf(target)]: target }),
      });
      if (answer.status !== 200) throw new Error(`/admin/revoke answered ${answer.status}`);
    }
    const wanted = vectors.filter(
      (vector) =>
        vector.anyTime &&
        vector.profile === values.profile &&
        (vector.kind === 'verify' || (values.gate && vector.kind === 'gate')),
    );
    result = await runVectors(wanted, overHttp(values.url));
  }
  for (const { id, description, difference } of result.failures)
    console.log(`FAILED ${id} (${description}): ${difference}`);
  console.log(`${result.asked - result.failures.length} of ${result.asked} vectors hold`);
  return result.asked > 0 && result.failures.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main();
