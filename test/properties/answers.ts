import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { liveCall, liveChain } from '../middleware/call.js';
import { Random } from '../oracle/generator/random.js';
import { listWith } from '../revocation/lists.js';
import { makeChain, party, signJwt } from '../support/chain.js';
import type { Property } from './property.js';
import { sleep } from './subject.js';

const PIECES = [
  'a',
  '.',
  '..',
  '%2e',
  '%2E',
  '/',
  '%2f',
  '\\',
  '%5c',
  '\t',
  '\n',
  '\r',
  '?',
  '#',
  ';',
  ' ',
  '\u0000',
  'é',
  '%00',
  '...',
];

/** A resource that a prefix allows is below that prefix when the platform's URL parser has read it. */
export const urls: Property = {
  name: 'an allowed URL lies below its prefix',
  async check(subject) {
    const found: string[] = [];
    const verifier = await subject.verifier();
    const random = new Random(7);
    for (const prefix of ['file:///data/', 'https://x.example/a/']) {
      const chain = liveChain(1, { policy: { allowed_resources: [`${prefix}*`] } });
      for (let times = 0; times < 4_000; times++) {
        const uri = prefix + Array.from({ length: 1 + random.below(6) }, () => random.pick(PIECES)).join('');
        const { valid } = await verifier.verify(liveCall(chain, { tool: 'search', resource_uri: uri }));
        if (!valid || !URL.canParse(uri)) continue;
        const read = new URL(uri).href;
        if (!read.startsWith(prefix))
          found.push(`${JSON.stringify(uri)} is allowed by ${prefix}* and is ${read}`);
      }
    }
    await verifier.close();
    return found.slice(0, 5);
  },
};

/** A server for a status list that tests can change. */
async function listHost(answer: () => Promise<{ type: string; body: Buffer | string }>) {
  const server = createServer(
    (_, response) =>
      void answer().then(({ type, body }) => response.writeHead(200, { 'content-type': type }).end(body)),
  ).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/list`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const realNow = Date.now;

/** A verdict is right at the time at which it is given, even if it took long or the clock changed meanwhile. */
export const clock: Property = {
  name: 'a verdict is right when it is given',
  async check(subject) {
    const found: string[] = [];
    const start = Math.floor(realNow() / 1000);
    let at = start;
    Date.now = () => at * 1000;
    try {
      for (const step of [10, 100, -100, 0]) {
        at = start;
        // The clock advances while the list is fetched.
        const host = await listHost(async () => {
          await sleep(300);
          at = start + step;
          await sleep(100);
          return { type: 'application/vc', body: listWith([]) };
        });
        const verifier = await subject.verifier({ statusListBaseUrl: host.url });
        const chain = makeChain(1, {
          0: { iat: start - 50, nbf: start - 50, exp: start + 5, drs_status_list_index: 3 },
        });
        const verdict = await verifier.verify(liveCall(chain, { tool: 'search' }, { iat: start }));
        const isWithin = at >= start - 50 && at <= start + 5;
        // A refusal is always safe.
        if (verdict.valid && !isWithin) found.push(`valid ${at - start} s later, for a receipt of 5 s`);
        await verifier.close();
        host.close();
      }
    } finally {
      Date.now = realNow;
    }
    return found;
  },
};

/** An earlier list of a pinned issuer cannot undo revocations of a later one. */
export const lists: Property = {
  name: 'an older list takes nothing back',
  async check(subject) {
    const found: string[] = [];
    const issuer = party();
    const start = Math.floor(realNow() / 1000);
    const random = new Random(3);
    for (let game = 0; game < 4; game++) {
      let at = start;
      Date.now = () => at * 1000;
      const made = { validFrom: start - 1000, revoked: false };
      const signed = () => {
        const bits = Buffer.alloc(16_384);
        if (made.revoked) bits[0] = 0x80;
        return signJwt(
          {
            '@context': ['https://www.w3.org/ns/credentials/v2'],
            id: 'https://lists.example/1',
            type: ['VerifiableCredential', 'BitstringStatusListCredential'],
            issuer: issuer.did,
            validFrom: new Date(made.validFrom * 1000).toISOString().replace('.000', ''),
            credentialSubject: {
              id: 'https://lists.example/1#list',
              type: 'BitstringStatusList',
              statusPurpose: 'revocation',
              encodedList: `u${gzipSync(bits).toString('base64url')}`,
            },
          },
          issuer,
          { alg: 'EdDSA', typ: 'vc+jwt', cty: 'vc', kid: `${issuer.did}#${issuer.did.slice(8)}` },
        );
      };
      const host = await listHost(() => Promise.resolve({ type: 'application/vc+jwt', body: signed() }));
      const verifier = await subject.verifier({
        statusListBaseUrl: host.url,
        statusListIssuer: issuer.did,
        statusCacheTtlSecs: 10,
      });
      const chain = makeChain(1, {
        0: { iat: start - 50, nbf: start - 50, exp: start + 100_000, drs_status_list_index: 0 },
      });
      let [latest, isRevoked] = [0, false];
      for (let step = 0; step < 8; step++) {
        at += 100;
        made.validFrom = start - 1000 + random.below(5);
        made.revoked = random.chance(0.5);
        if (made.validFrom > latest) [latest, isRevoked] = [made.validFrom, made.revoked];
        else if (made.validFrom === latest) isRevoked = made.revoked;
        await sleep(30);
        const { valid } = await verifier.verify(liveCall(chain, { tool: 'search' }, { iat: at }));
        if (valid && isRevoked)
          found.push(
            `valid after a list of ${latest - start} s had revoked it, by one of ${made.validFrom - start} s`,
          );
      }
      await verifier.close();
      host.close();
    }
    Date.now = realNow;
    return found.slice(0, 3);
  },
};
