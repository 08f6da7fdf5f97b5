import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ListServer } from '../revocation/list-server.js';
import { tokenWith } from '../revocation/tokens.js';
import { invoke, makeChain, type Chain, type Party } from '../support/chain.js';
import { startService, type RunningService } from '../support/service.js';

const TOKEN = 'a-token-of-some-length';
const DEAD = 100;

/** A root whose receipts count in a list at a path. */
interface Company {
  readonly name: string;
  readonly path: string;
  /** Valid unless its list says something else, at index 7 and at index 8. */
  readonly chains: readonly [Chain, Chain];
}

const company = (name: string, at: string): Company => {
  const chain = (index: number) =>
    makeChain(2, { 1: { drs_status_list_index: index, jti: `dr:${name}-${index}` } });
  return { name, path: at, chains: [chain(7), chain(8)] };
};
const rootOf = ({ parties }: Chain) => parties[0] as Party;

describe('a service with 100 dead lists and one live', () => {
  const live = company('Live Ltd', '/live');
  const other = company('Other Ltd', '/other');
  const dead = Array.from({ length: DEAD }, (_, at) => company(`Dead ${at}`, `/dead/${at}`));
  let lists: ListServer;
  let folder: string;
  let service: RunningService;

  beforeAll(async () => {
    lists = await ListServer.start();
    folder = await mkdtemp(path.join(tmpdir(), 'drs-root-lists-'));
    // Of each company, the roots of both chains have a row.
    const rows = [live, other, ...dead].flatMap(({ name, path: at, chains }) =>
      chains.map((chain) => ({
        ...{ did: rootOf(chain).did, name, addresses: ['127.0.0.1'] },
        status_lists: [{ uri: new URL(`${at}/${rootOf(chain).did}`, lists.url).href, form: 'token' }],
      })),
    );
    const revoked = new Map([
      ['/live', 8],
      ['/other', 7],
    ]);
    const issuers = new Map(
      [live, other].flatMap(({ chains }) => chains.map((chain) => [rootOf(chain).did, rootOf(chain)])),
    );
    lists.respond = ({ url = '' }, response) => {
      const [, at = '', did = ''] = /^(.*)\/(did:.*)$/.exec(url) ?? [];
      const issuer = issuers.get(did);
      const number = Number(at.replace('/dead/', ''));
      // Half of the dead ones hang, the others answer something else at once.
      if (issuer === undefined) return number % 2 === 0 ? undefined : void response.writeHead(500).end();
      const by = { did, alg: 'EdDSA' as const, privateKey: issuer.key };
      const sub = new URL(url, lists.url).href;
      return void response.end(tokenWith({ [revoked.get(at) ?? 0]: 1 }, by, { changes: { sub } }));
    };
    const file = path.join(folder, 'roots.jsonl');
    await writeFile(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    service = await startService({ TRUSTED_ROOTS_FILE: file, DRS_ADMIN_TOKEN: TOKEN });
  }, 60_000);

  afterAll(async () => {
    await service.stop();
    await lists.close();
    await rm(folder, { recursive: true });
  });

  const codeOf = async (chain: Chain) => {
    const answer = (await (await service.post('/verify', invoke(chain))).json()) as {
      error?: { code: string };
    };
    return answer.error?.code ?? 'valid';
  };
  const codesOf = (companies: readonly Company[]) =>
    Promise.all(companies.flatMap(({ chains }) => chains.map(codeOf)));
  const revoke = async (body: object) => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const response = await service.post('/admin/revoke', body, headers);
    return [response.status, (await response.json()) as object] as const;
  };

  it('fails those that need a dead one, and no others, from the first call on', async () => {
    const [ofDead, ofLive] = await Promise.all([codesOf(dead), codesOf([live, other])]);
    expect(new Set(ofDead)).toEqual(new Set(['REVOCATION_CHECK_FAILED']));
    // The same index is revoked in one list, and not in the other.
    expect(ofLive).toEqual(['valid', 'RECEIPT_REVOKED', 'RECEIPT_REVOKED', 'valid']);
  });

  it('answers while it asks for them again and again', async () => {
    for (let round = 0; round < 10; round++) {
      const [, ofLive] = await Promise.all([codesOf(dead), codesOf([live])]);
      expect(ofLive).toEqual(['valid', 'RECEIPT_REVOKED']);
    }
  });

  it('is ready, and names rows and no addresses', async () => {
    const ready = await fetch(`${service.url}/readyz`);
    const { status, failing_lists: names = [] } = (await ready.json()) as {
      status: string;
      failing_lists?: string[];
    };
    expect([ready.status, status, names.length]).toEqual([200, 'ready', 20]);
    for (const name of names) expect(name).toMatch(/^Dead \d+$/);
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metrics).toMatch(/^drs_root_lists_failing\{root="Dead \d+"\} [12]$/m);
    expect(metrics).toMatch(/^drs_root_lists 4$/m);
    expect(metrics).toMatch(/^drs_root_list_fetches_total\{outcome="updated"\} 4$/m);
    expect(metrics).not.toContain('/dead/');
    expect(metrics).not.toContain('did:key:');
  });

  it('revokes locally by an index under a root, and by jti and issuer', async () => {
    const [chain] = live.chains;
    const { did } = rootOf(chain);
    // Of the operator's list, in which none of these counts.
    expect(await revoke({ status_list_index: 7 })).toEqual([200, { revoked: true, status_list_index: 7 }]);
    expect((await revoke({ status_list_index: 7, root: rootOf(other.chains[1]).did }))[0]).toBe(200);
    expect(await codesOf([live, other])).toEqual(['valid', 'RECEIPT_REVOKED', 'RECEIPT_REVOKED', 'valid']);
    const named = { status_list_index: 7, root: did };
    expect(await revoke(named)).toEqual([200, { revoked: true, ...named }]);
    expect(await codeOf(chain)).toBe('RECEIPT_REVOKED');
    const [, second] = other.chains;
    const receipt = { jti: 'dr:Other Ltd-8', iss: (second.parties[1] as Party).did };
    expect((await revoke({ ...receipt, iss: did }))[0]).toBe(200);
    expect(await codeOf(second)).toBe('valid');
    expect(await revoke(receipt)).toEqual([200, { revoked: true, ...receipt }]);
    expect(await codeOf(second)).toBe('RECEIPT_REVOKED');
    const listed = await fetch(`${service.url}/admin/revocations`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    const lines = (await listed.text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(lines).toEqual(
      expect.arrayContaining([expect.objectContaining(named), expect.objectContaining(receipt)]),
    );
  });
});
