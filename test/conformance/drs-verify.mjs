// The library of this repository as a program for `run.mjs --command "node test/conformance/drs-verify.mjs"`.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { createVerifier } from 'drs-verify';
import { pino } from 'pino';
import { readConfiguration } from '../../dist/service/configuration/configuration.js';
import { startService } from '../../dist/service/service.js';
import { decisionOf, flat, linesOf } from './run.mjs';

const verifiers = new Map();
/** Services with gates. They run in this process, so that their clock can be set. Each replay vector has its own. */
const gates = new Map();

/** Returns the verifier for a profile. There is one for each, and what is revoked in it stays revoked. */
async function verifierFor({ settings, revocation }) {
  const key = JSON.stringify([settings, revocation]);
  const known = verifiers.get(key);
  if (known !== undefined) return known.verifier;
  const { remote, local } = revocation;
  const list =
    remote === 'none'
      ? null
      : createServer((_, response) => {
          if (remote === 'unavailable') response.writeHead(500).end();
          else
            response
              .writeHead(200, { 'content-type': 'application/octet-stream' })
              .end(Buffer.from(remote, 'hex'));
        }).listen(0, '127.0.0.1');
  if (list !== null) await once(list, 'listening');
  const verifier = createVerifier({
    ...settings,
    workerThreads: 0,
    ...(list && { statusListBaseUrl: `http://127.0.0.1:${list.address().port}/`, statusListForm: 'raw' }),
  });
  for (const target of local)
    await verifier.revoke(
      typeof target === 'number' || target.startsWith('did:')
        ? { [typeof target === 'number' ? 'status_list_index' : 'did']: target }
        : { receipt: target },
    );
  verifiers.set(key, { verifier, list });
  return verifier;
}

for await (const line of linesOf(process.stdin)) {
  const question = JSON.parse(line);
  console.log(
    JSON.stringify(question.kind === 'verify' ? await answer(question) : await answerOfGate(question)),
  );
}
for (const { verifier, list } of verifiers.values()) {
  await verifier.close();
  list?.close();
}
for (const gate of gates.values()) await gate.close(true);

/** Answers a `POST /verify`. The body of the call is compared as the text in the request. */
async function answer({ request, now, bodyText, settings, revocation }) {
  let bundle;
  try {
    bundle = JSON.parse(request);
  } catch {
    return { status: 400 };
  }
  const verifier = await verifierFor({ settings, revocation });
  return flat(await verifier.verify(bundle, { now, ...(bodyText !== undefined && { bodyText }) }));
}

async function openGate(settings, replay) {
  const environment = {
    PORT: '0',
    FRONT_END: 'node',
    WORKER_THREADS: '0',
    GATE_REPLAY: replay,
    GATE_ROUTES: 'any',
    SERVER_IDENTITY: 'any',
  };
  return startService({ ...readConfiguration(environment), ...settings }, pino({ level: 'silent' }));
}

async function answerOfGate({ kind, now, request, steps, settings }) {
  const key = JSON.stringify(settings);
  const shared = kind === 'gate' ? (gates.get(key) ?? (await openGate(settings, 'off'))) : null;
  if (shared !== null) gates.set(key, shared);
  const service = shared ?? (await openGate(settings, 'memory'));
  const decisions = [];
  const realNow = Date.now;
  for (const step of steps ?? [{ request, now }]) {
    Date.now = () => step.now * 1000;
    const body = JSON.stringify(step.request);
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`http://127.0.0.1:${service.port}/v1/gate`, { method: 'POST', headers, body });
    decisions.push(answer.status === 200 ? decisionOf(await answer.json()) : { status: answer.status });
  }
  Date.now = realNow;
  if (shared === null) await service.close(true);
  return kind === 'gate' ? decisions[0] : { decisions };
}
