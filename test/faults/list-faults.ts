import type { ServerResponse, IncomingMessage } from 'node:http';
import { ListServer } from '../revocation/list-server.js';
import { credentialWith, LIST_ID, newIssuer, toJwt } from '../revocation/lists.js';
import type { Fault, Scene } from './fault.js';
import { sleep } from './traffic.js';

// An index that the traffic never reaches by counting.
const LISTED = 130_500;
const TTL_SECS = 1;

interface Host {
  readonly server: ListServer;
  /** The list as it was before `LISTED` was revoked: signed, and older. */
  readonly older: string;
  readonly now: string;
}

type Misbehaviour = (request: IncomingMessage, response: ServerResponse, host: Host) => void;

const STATED =
  'The service uses its copy of the list for `STATUS_CACHE_TTL_SECS` + `STATUS_MAX_STALE_SECS`. Then it refuses receipts with an index (`REVOCATION_CHECK_FAILED`) until a fetch succeeds.';

/** A fault during which the list host misbehaves for a while. */
const listFault = (name: string, misbehave: Misbehaviour): Fault => ({
  name: `the list host ${name}`,
  row: 'the list host hangs, resets connections, lies about its length, or sends an older list',
  stated: STATED,
  prepare: async () => {
    const server = await ListServer.start();
    const issuer = newIssuer();
    const at = (secsAgo: number) => ({
      issuer: issuer.did,
      validFrom: new Date(Date.now() - secsAgo * 1000).toISOString(),
    });
    const host = {
      server,
      older: await toJwt({ ...credentialWith([]), ...at(3600) }, issuer),
      now: await toJwt({ ...credentialWith([LISTED]), ...at(60) }, issuer),
    };
    server.serve('application/vc+jwt', host.now);
    return {
      env: {
        STATUS_LIST_BASE_URL: server.url,
        STATUS_LIST_ID: LIST_ID,
        STATUS_LIST_ISSUER: issuer.did,
        STATUS_CACHE_TTL_SECS: String(TTL_SECS),
        STATUS_FETCH_TIMEOUT_MS: '500',
      },
      run: async (scene) => {
        const { traffic, demand, note, lastMs } = scene;
        // The newer list revokes this one from the beginning.
        const listed = traffic.add(true, LISTED);
        const end = performance.now() + 20_000;
        while ((await traffic.call(listed))?.code !== 'RECEIPT_REVOKED' && performance.now() < end)
          await sleep(50);
        demand(performance.now() < end, 'the list revokes nothing');
        listed.revokedAt = performance.now();
        server.respond = (request, response) => misbehave(request, response, host);
        // Wait until the copy has expired, and the fetch that verifications wait for has timed out.
        await sleep(TTL_SECS * 1000 + 1200);
        const failed = traffic.counts['REVOCATION_CHECK_FAILED'] ?? 0;
        const valid = traffic.counts['valid'] ?? 0;
        await sleep(lastMs);
        demand((traffic.counts['REVOCATION_CHECK_FAILED'] ?? 0) > failed, 'nothing was refused');
        demand((traffic.counts['valid'] ?? 0) > valid, 'nothing was valid without an index');
        server.serve('application/vc+jwt', host.now);
        const ms = await untilIndexed(scene);
        note(`receipts with an index valid again ${Math.round(ms)} ms after the host was well`);
        demand(ms < 50_000, 'receipts with an index are still refused');
      },
      close: () => server.close(),
    };
  },
});

/** Milliseconds until a call whose receipts have an index is valid. */
async function untilIndexed({ traffic }: Scene): Promise<number> {
  const begun = performance.now();
  const delegation = traffic.add();
  while (performance.now() - begun < 50_000) {
    if ((await traffic.call(delegation))?.valid === true) break;
    await sleep(20);
  }
  return performance.now() - begun;
}

/** Faults of the host of the status list. */
export const listFaults: readonly Fault[] = [
  listFault('hangs', () => undefined),
  listFault('resets connections', (request) => request.socket.resetAndDestroy()),
  listFault('lies about its length: too long', (_, response, { now }) => {
    response.writeHead(200, { 'content-type': 'application/vc+jwt', 'content-length': now.length + 100 });
    response.end(now);
  }),
  listFault('lies about its length: too short', (_, response, { now }) => {
    response.writeHead(200, { 'content-type': 'application/vc+jwt', 'content-length': now.length - 100 });
    response.socket?.write(now);
    response.socket?.end();
  }),
  listFault('sends an older list', (_, response, { older }) => {
    response.writeHead(200, { 'content-type': 'application/vc+jwt' }).end(older);
  }),
];
