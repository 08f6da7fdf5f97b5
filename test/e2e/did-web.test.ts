import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { HEADER, invocationClaims, party, rootClaims, signJwt, type Party } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { startService } from '../support/service.js';
import { DocumentServer, newKey } from '../trust/documents.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-did-web-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = path.join(folder, 'roots.jsonl');

/** Rows, in one step. */
function write(...rows: readonly object[]) {
  writeFileSync(`${file}.new`, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  renameSync(`${file}.new`, file);
}

function bundleOf(root: Party, agent: Party) {
  const receipts = [signJwt(rootClaims(root, agent), root, { ...HEADER, kid: `${root.did}#1` })];
  return {
    bundle_version: '4.0',
    receipts,
    invocation: signJwt(invocationClaims(receipts, root, agent), agent),
  };
}

it('the service follows rows, reads their documents, and shows how many are there', async () => {
  const server = await DocumentServer.start();
  const acme = server.publish('acme', newKey('1'));
  const globex = server.publish('globex', newKey('1'));
  const missing = server.didOf('missing');
  const addresses = ['127.0.0.0/8'];
  write({ did: acme.did, addresses, name: 'Acme' });
  const service = await startService({ TRUSTED_ROOTS_FILE: file });
  const codeOf = async (bundle: object) => {
    const answer = await fetch(`${service.url}/verify`, { method: 'POST', body: JSON.stringify(bundle) });
    const verdict = (await answer.json()) as { valid: boolean; error?: { code: string } };
    return verdict.error?.code ?? verdict.valid;
  };
  const counts = async () =>
    [
      ...(await (await fetch(`${service.url}/metrics`)).text()).matchAll(
        /^drs_did_documents\{state="(\w+)"\} (\d+)$/gm,
      ),
    ]
      .map(([, state, count]) => `${state} ${count}`)
      .join(', ');
  try {
    const [ofAcme, ofGlobex] = [bundleOf(acme, party()), bundleOf(globex, party())];
    expect([await codeOf(ofAcme), await codeOf(ofGlobex)]).toEqual([true, 'UNRESOLVABLE_DID']);
    expect(await counts()).toBe('fresh 1, stale 0, missing 0');
    write({ did: globex.did, addresses }, { did: missing, root: false, addresses });
    service.child.kill('SIGHUP');
    await eventually(async () =>
      expect([await codeOf(ofAcme), await codeOf(ofGlobex)]).toEqual(['UNRESOLVABLE_DID', true]),
    );
    expect(await codeOf(bundleOf(globex, { did: missing, key: party().key }))).toBe('DID_RESOLUTION_FAILED');
    expect(await counts()).toBe('fresh 1, stale 0, missing 1');
    expect(service.log).toContainEqual(
      expect.objectContaining({ did: missing, msg: 'the document of a did:web cannot be had', level: 40 }),
    );
    // Read again without a signal.
    write({ did: globex.did, addresses });
    await eventually(async () => expect(await counts()).toBe('fresh 1, stale 0, missing 0'));
    expect(server.timesAsked('globex')).toBe(1);
  } finally {
    await service.stop();
    await server.close();
  }
});
