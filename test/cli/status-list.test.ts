import { compactVerify, importJWK } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import { ListServer } from '../revocation/list-server.js';
import { startService } from '../support/service.js';
import { createWorkplace, type Workplace, words } from './drs.js';

describe('drs status-list', () => {
  let work: Workplace;
  let issuer: string;
  beforeAll(async () => {
    work = await createWorkplace();
    issuer = (await work.done('keygen', '-o', 'org.key')).stdout.trim();
    for (const name of ['alice', 'bot']) await work.done('keygen', '-o', `${name}.key`);
    await work.done(...words('status-list create --key org.key --id http://lists.example/1 -o list.jwt'));
  });

  it('makes a credential that others can verify', async () => {
    const jwk = {
      kty: 'OKP',
      crv: 'Ed25519',
      x: Buffer.from(publicKeyOf(issuer) ?? []).toString('base64url'),
    };
    const { payload } = await compactVerify(
      (await work.read('list.jwt')).trim(),
      await importJWK(jwk, 'EdDSA'),
    );
    expect(JSON.parse(Buffer.from(payload).toString())).toMatchObject({
      issuer,
      type: ['VerifiableCredential', 'BitstringStatusListCredential'],
      credentialSubject: { statusPurpose: 'revocation' },
    });
  });

  it('revokes and reinstates, as a real service sees it', async () => {
    await work.done(
      ...words('issue --key alice.key --to bot.pub --tool x --status-index 7 --yes -o root.jwt'),
    );
    const invoke = words('invoke --key bot.key --chain root.jwt --tool-server https://tools.example');
    await work.done(...invoke, '--args', '{"tool":"x"}', '-o', 'bundle.json');
    // Whatever serves files, and calls them so.
    const list = await ListServer.start();
    list.respond = (_, response) =>
      void work.read('list.jwt').then((text) => response.setHeader('content-type', 'text/plain').end(text));
    const service = await startService({
      STATUS_LIST_BASE_URL: list.url,
      STATUS_LIST_ID: 'http://lists.example/1',
      STATUS_LIST_ISSUER: issuer,
      STATUS_CACHE_TTL_SECS: '1',
    });
    const verify = async () =>
      (await work.drs(['verify', 'bundle.json'], { env: { DRS_VERIFY_URL: service.url } })).stdout;
    try {
      // A verification waits for the list for two seconds, and is refused without it.
      await expect.poll(verify).toMatch(/^valid/);
      await work.done('status-list', 'revoke', '--key', 'org.key', 'list.jwt', '6', '7');
      await expect.poll(verify).toMatch(/RECEIPT_REVOKED.*remote status list/s);
      await work.done('status-list', 'reinstate', '--key', 'org.key', 'list.jwt', '7');
      await expect.poll(verify).toMatch(/^valid/);
    } finally {
      await service.stop();
      await list.close();
    }
  });

  it.each([
    [['create', '--key', 'org.key', '--id', 'x:y', '--entries', '7'], /7 entries.*multiple of 8/s],
    [['create', '--key', 'org.key', '--id', 'x:y', '-o', 'list.jwt'], /exists already/],
    [['create', '--key', 'org.key', '--id', 'lists', '-o', 'other.jwt'], /--id is "lists", expected a URL\n/],
    [
      ['revoke', '--key', 'alice.key', 'list.jwt', '7'],
      /the list is by did:.*and this key is did:.*refuse it\n/,
    ],
    [['revoke', '--key', 'org.key', 'list.jwt', '131072'], /no entry 131072/],
    [['revoke', '--key', 'org.key', 'list.jwt', '-1'], /-1|option/],
    [['revoke', '--key', 'org.key', 'list.jwt', 'seven'], /seven/],
    [['revoke', '--key', 'org.key', 'org.pub', '1'], /is not a status list/],
  ])('refuses %j and changes nothing', async (args, says) => {
    const before = await work.read('list.jwt');
    const { code, stderr } = await work.drs(['status-list', ...args]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(says)]);
    expect(await work.read('list.jwt')).toBe(before);
  });
});
