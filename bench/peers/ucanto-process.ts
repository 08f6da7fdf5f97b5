import { Delegation, type API } from '@ucanto/core';
import { ed25519 } from '@ucanto/principal';
import { Verifier } from '@ucanto/principal/ed25519';
import { access, capability, Schema } from '@ucanto/validator';
import { readJob, timeRepeated, type InProcessReport, type VerdictCost } from './in-process-report.js';

// UCAN: checks every signature, that each audience is the next issuer, the time bounds, and that each capability
// derives from its proof. Revocation is not checked here. Arguments are not bound; there is no status list and no
// consent record.
const callTool = capability({
  can: 'tools/call',
  with: Schema.did(),
  nb: Schema.struct({ tool: Schema.string() }),
  derives: (child, parent) =>
    child.with === parent.with && child.nb.tool === parent.nb.tool
      ? { ok: {} }
      : { error: new Error('escalation') },
});

/** Makes a call under a chain, as an archive, and the same call by somebody to whom nothing was delegated. */
async function makeInvocations(depth: number, server: ed25519.EdSigner): Promise<[Uint8Array, Uint8Array]> {
  const parties = await Promise.all(Array.from({ length: depth + 1 }, () => ed25519.generate()));
  const party = (at: number) => parties[at] as ed25519.EdSigner;
  const nb = { tool: 'search' };
  let proofs: API.Delegation[] = [];
  for (let at = 0; at < depth; at++) {
    const delegation = await callTool.delegate({
      ...{ issuer: party(at), audience: party(at + 1), with: party(0).did(), nb, proofs },
      expiration: Math.floor(Date.now() / 1000) + 86_400,
    });
    proofs = [delegation];
  }
  const callBy = async (issuer: ed25519.EdSigner) => {
    const invocation = callTool.invoke({ issuer, audience: server, with: party(0).did(), nb, proofs });
    const { ok, error } = await (await invocation.delegate()).archive();
    if (error) throw error;
    return ok;
  };
  return [await callBy(party(depth)), await callBy(await ed25519.generate())];
}

async function verify(archive: Uint8Array, server: ed25519.EdSigner): Promise<boolean> {
  const { ok, error } = await Delegation.extract(archive);
  if (error) return false;
  // The extracted value has no type. The validator checks that it is this capability.
  const result = await access(ok as API.Invocation<API.InferInvokedCapability<typeof callTool>>, {
    ...{ authority: server, capability: callTool, principal: Verifier },
    validateAuthorization: () => ({ ok: {} }),
  });
  return result.error === undefined;
}

const job = readJob();
const server = await ed25519.generate();
const report: (VerdictCost & { depth: number })[] = [];
for (const depth of job.depths) {
  const [archive, stolen] = await makeInvocations(depth, server);
  if (!(await verify(archive, server))) throw new Error(`UCAN refused its own chain of depth ${depth}`);
  if (await verify(stolen, server)) throw new Error('UCAN accepted a call by somebody without authority');
  report.push({ depth, ...(await timeRepeated(() => verify(archive, server), job.milliseconds)) });
}
process.stdout.write(JSON.stringify(report satisfies InProcessReport));
