// The library of this repository as a program for `run.mjs --command "node conformance/drs-verify.mjs"`.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { createVerifier } from 'drs-verify';
import { flat } from './run.mjs';

const verifiers = new Map();

/** One verifier for each set-up; what is revoked in it stays so. */
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
    ...(list && { statusListBaseUrl: `http://127.0.0.1:${list.address().port}/` }),
  });
  for (const index of local) await verifier.revoke(index);
  verifiers.set(key, { verifier, list });
  return verifier;
}

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  console.log(JSON.stringify(await answer(question)));
}
for (const { verifier, list } of verifiers.values()) {
  await verifier.close();
  list?.close();
}

/** The request is what a client posts to /verify: its body is compared as the text that it is there. */
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
