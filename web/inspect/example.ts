import { encodeBase64url, encodeUtf8 } from '#platform';
import { DRS_VERSION, INVOCATION_TYPE, RECEIPT_TYPE } from '../../src/protocol/claims.js';
import { didKeyOf } from '../../src/protocol/did-key.js';
import type { JsonObject } from '../../src/protocol/json.js';
import { digestOf, ISSUED_HEADER } from '../../src/protocol/jwt.js';
import type { Settings } from './inspect.js';

/** The part of libsodium that makes the examples: its keys are made here, and used for nothing else. */
export interface ExampleSodium {
  crypto_sign_keypair(): { publicKey: Uint8Array; privateKey: Uint8Array };
  crypto_sign_detached(message: Uint8Array, privateKey: Uint8Array): Uint8Array;
}

/** What an example shows: what is pasted, and what else is set. */
export interface Example {
  readonly input: string;
  readonly settings: Partial<Settings>;
}

interface Party {
  readonly did: string;
  readonly key: Uint8Array;
}

/** The examples by the words of the menu: one that is valid, one for each block, and two that are large. */
export const EXAMPLES = {
  valid: 'Valid: an agent and its helper search',
  A: 'A: a claim has the wrong type',
  B: 'B: a receipt was left out',
  C: 'C: an agent signed its own delegation',
  D: 'D: the call breaks the policy',
  E: 'E: a receipt has expired',
  F: 'F: a receipt was revoked',
  binding: 'Body: it is not what was signed',
  long: 'Sixteen receipts',
} as const;

/** The name of an example. */
export type ExampleName = keyof typeof EXAMPLES;

const HOUR = 3600;
const DAY = 24 * HOUR;

/** Makes an example as of a time in Unix seconds. */
export function makeExample(name: ExampleName, sodium: ExampleSodium, now: number): Example {
  const depth = name === 'long' ? 16 : 3;
  const parties = Array.from({ length: depth + 1 }, (): Party => {
    const { publicKey, privateKey } = sodium.crypto_sign_keypair();
    return { did: didKeyOf(publicKey), key: privateKey };
  });
  const sign = (claims: JsonObject, { key }: Party) => {
    const input = `${ISSUED_HEADER}.${encodeBase64url(encodeUtf8(JSON.stringify(claims)))}`;
    return `${input}.${encodeBase64url(sodium.crypto_sign_detached(encodeUtf8(input), key))}`;
  };
  const receipts: string[] = [];
  for (let at = 0; at < depth; at++) {
    const [issuer, audience] = [parties[at], parties[at + 1]] as [Party, Party];
    receipts.push(
      sign(
        receiptClaims(name, at, parties, issuer, audience, receipts.at(-1), now),
        name === 'C' && at === 1 ? audience : issuer,
      ),
    );
  }
  const says = { estimated_cost_usd: 0.2, pii_access: false, write_access: false };
  const call = { tool: name === 'D' ? 'pay' : 'search', query: 'green tea', ...says };
  const [principal, caller] = [parties[0], parties.at(-1)] as [Party, Party];
  const invocation = sign(
    {
      ...{
        drs_type: INVOCATION_TYPE,
        drs_v: DRS_VERSION,
        iss: caller.did,
        sub: principal.did,
        cmd: '/mcp/tools/call',
      },
      ...{
        args: call,
        dr_chain: receipts.map(digestOf),
        iat: now - 20,
        jti: `inv:${now.toString(36)}`,
        tool_server: 'https://tools.example',
      },
    },
    caller,
  );
  const shown = name === 'B' ? receipts.toSpliced(1, 1) : receipts;
  const body = name === 'binding' ? { ...call, query: 'gold' } : call;
  const bundle = { bundle_version: DRS_VERSION, receipts: shown, invocation, body };
  return {
    input: JSON.stringify(bundle, null, 2),
    settings: name === 'F' ? { revoked: new Set([1042]) } : {},
  };
}

function receiptClaims(
  name: ExampleName,
  at: number,
  parties: readonly Party[],
  issuer: Party,
  audience: Party,
  parent: string | undefined,
  now: number,
): JsonObject {
  const isLong = name === 'long';
  const policies: JsonObject[] = [
    {
      allowed_tools: ['search', 'fetch', 'summarise', 'translate'],
      max_cost_usd: 20,
      max_calls: 500,
      write_access: false,
    },
    { allowed_tools: ['search', 'fetch', 'summarise'], max_cost_usd: 5, max_calls: 100, write_access: false },
    { allowed_tools: ['search'], max_cost_usd: 1, max_calls: 20, write_access: false, pii_access: false },
  ];
  const policy = isLong
    ? {
        allowed_tools: ['search', ...(at < 8 ? ['fetch'] : [])],
        max_cost_usd: 32 - at * 2,
        write_access: false,
      }
    : (policies[at] ?? {});
  const windows = [
    [now - 9 * DAY, now + 21 * DAY],
    [now - 2 * DAY, now + 6 * DAY],
    [now - 5 * HOUR, name === 'E' ? now - HOUR : now + 2 * DAY],
  ];
  const [nbf = 0, exp = 0] = isLong ? [now - (16 - at) * HOUR, now + (20 - at) * HOUR] : (windows[at] ?? []);
  const uuid = `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`;
  return {
    ...{
      drs_type: RECEIPT_TYPE,
      drs_v: DRS_VERSION,
      iss: issuer.did,
      aud: audience.did,
      sub: parties[0]?.did ?? '',
    },
    ...{
      cmd: at === 0 ? '/mcp' : '/mcp/tools/call',
      policy,
      iat: nbf,
      nbf,
      exp: name === 'A' && at === 1 ? 'tomorrow' : exp,
    },
    ...{ jti: `dr:${uuid}`, prev_dr_hash: parent === undefined ? null : digestOf(parent) },
    ...(at === 0
      ? {
          drs_root_type: 'human',
          drs_consent: {
            ...{
              locale: 'en',
              method: 'explicit-ui-click',
              policy_hash: digestOf('the text that the person saw'),
              session_id: uuid,
            },
            timestamp: new Date(nbf * 1000).toISOString().replace('.000Z', 'Z'),
          },
        }
      : {}),
    ...(at === 1 && !isLong ? { drs_status_list_index: 1042 } : {}),
  };
}
