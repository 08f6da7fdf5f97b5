import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, it } from 'vitest';
import type { JsonValue } from '../../src/protocol/json.js';
import { readRoot, sentence } from '../../src/trust/read-root.js';
import { Passkey } from '../approval/passkey.js';
import { party } from '../support/chain.js';

const did = party().did;
const [alice, bob, carol] = (['Ed25519', 'P-256', 'RSA'] as const).map(
  (kind, at) => new Passkey(kind, { name: ['Alice', 'Bob', 'Carol'][at] ?? '' }).approver,
) as [Approver, Approver, Approver];
type Approver = Passkey['approver'];

const schema = new Ajv2020().compile(
  JSON.parse(readFileSync(new URL('../../docs/spec/roots.schema.json', import.meta.url), 'utf8')) as object,
);
function faultsOf(members: object): string[] {
  const read = readRoot({ did, ...members });
  return 'key' in read ? [] : read.map(sentence);
}

it.each<object>([
  { approve: { tools: ['transfer'] } },
  { approve: { tools: ['*'], above_usd: 0 } },
  { approve: { above_usd: 1e9 }, approvers: [alice] },
  { approvers: [alice, bob, carol], needed: 3 },
  {
    approvers: [
      { ...alice, origin: 'http://localhost:8443' },
      { ...bob, origin: 'https://xn--zrich-kva.example:8443' },
    ],
  },
  { approvers: [alice], private: true },
  { private: false },
])('an entry can have %j', (members) => {
  expect(faultsOf(members)).toEqual([]);
  expect(schema({ did, ...members })).toBe(true);
});

it('says what it says, whatever the order of its members', () => {
  const turned = {
    origin: alice.origin,
    key: { x: 'x' in alice.key ? alice.key.x : '', kty: 'OKP', crv: 'Ed25519' },
    id: alice.id,
    name: 'Alice',
  };
  expect(readRoot({ did, approve: { above_usd: 5 }, approvers: [turned] })).toMatchObject({
    value: { approval: { tools: null, aboveUsd: 5, needed: 1, isPrivate: false } },
  });
  expect(readRoot({ did, private: true })).toMatchObject({ value: { approval: { isPrivate: true } } });
  const read = readRoot({ did, approvers: [turned, bob], needed: 2 } as unknown as JsonValue);
  const approvers = 'value' in read ? (read.value.approval?.approvers ?? []) : [];
  // Two readings of one approver are compared as texts.
  expect(approvers.map((one) => JSON.stringify(one))).toEqual(
    [alice, bob].map(({ name, id, key, origin }) => {
      const { kty, crv, x, y } = key as Record<string, string>;
      return JSON.stringify({ name, id, key: { kty, crv, x, ...(y !== undefined && { y }) }, origin });
    }),
  );
  expect(readRoot({ did })).toMatchObject({ value: { approval: null } });
});

const bytes = (length: number) => Buffer.alloc(length, 0xc1).toString('base64url');
const key = (changes: object) => ({ approvers: [{ ...bob, key: { ...bob.key, ...changes } }] });
const rsa = (n: Buffer) => ({
  approvers: [{ ...alice, key: { kty: 'RSA', n: n.toString('base64url'), e: 'AQAB' } }],
});
const origin = (text: unknown) => ({ approvers: [{ ...alice, origin: text }] });
const APPROVE = 'expected an object with tools, above_usd or both, and nothing else';
const APPROVER = 'expected an object with name, id, key, origin, and nothing else';
const KEY = 'expected the public JWK of a passkey: Ed25519, P-256, or RSA of 2,048 to 4,096 bits';
const ORIGIN = 'expected an origin as browsers write it: https: and a domain, or http://localhost';

it.each<[object, string]>([
  [{ approve: null }, `approve: it is null, ${APPROVE}`],
  [{ approve: true }, APPROVE],
  [{ approve: {} }, `approve: it is {}, ${APPROVE}`],
  [{ approve: { tool: ['x'] } }, APPROVE],
  [{ approve: { tools: [] } }, 'approve.tools: it is [], expected an array of 1 to 4096 names of tools'],
  [{ approve: { tools: 'transfer' } }, 'approve.tools: it is "transfer"'],
  [{ approve: { tools: ['x', 1] } }, 'approve.tools: it is ["x",1]'],
  [{ approve: { tools: undefined } }, 'approve.tools: it is missing'],
  [{ approve: { above_usd: '50' } }, 'approve.above_usd: it is "50", expected a number from 0 to 1000000000'],
  [{ approve: { above_usd: -1 } }, 'approve.above_usd: it is -1'],
  [{ approve: undefined }, 'approve: it is missing, expected a value, or no such member'],
  [{ approvers: [] }, 'approvers: it is [], expected an array of 1 to 16 approvers'],
  [{ approvers: { alice } }, 'expected an array of 1 to 16 approvers'],
  [{ approvers: Array.from({ length: 17 }, () => alice) }, 'expected an array of 1 to 16 approvers'],
  [{ approvers: ['Alice'] }, `approvers[0]: it is "Alice", ${APPROVER}`],
  [{ approvers: [bob, { ...alice, private: true }] }, APPROVER],
  [{ approvers: [{ name: 'Alice', id: alice.id, key: alice.key }] }, APPROVER],
  [{ approvers: [{ ...alice, name: 'A\u202ebob' }] }, 'approvers[0].name: it is'],
  [{ approvers: [{ ...alice, name: '' }] }, 'approvers[0].name: it is "", expected the name of a person'],
  [{ approvers: [{ ...alice, id: bytes(15) }] }, 'approvers[0].id: it is'],
  [{ approvers: [{ ...alice, id: bytes(1024) }] }, 'approvers[0].id: it is'],
  [
    { approvers: [{ ...alice, id: `${bytes(16)}==` }] },
    'expected the id of a passkey, 16 to 1,023 bytes in base64url',
  ],
  [{ approvers: [alice, { ...bob, id: alice.id }] }, 'approvers[1].id: it is'],
  [{ approvers: [{ ...alice, key: null }] }, `approvers[0].key: it is null, ${KEY}`],
  [key({ d: bytes(32) }), KEY],
  [key({ alg: 'ES256' }), KEY],
  [key({ crv: 'P-384' }), KEY],
  // The point beside it is not on the curve.
  [key({ y: bytes(32) }), KEY],
  [key({ x: Buffer.alloc(32, 0xff).toString('base64url') }), KEY],
  [{ approvers: [{ ...alice, key: { ...alice.key, x: bytes(31) } }] }, KEY],
  [{ approvers: [{ ...alice, key: { ...alice.key, crv: 'Ed448' } }] }, KEY],
  [rsa(Buffer.alloc(255, 0xff)), KEY],
  [rsa(Buffer.alloc(513, 0xff)), KEY],
  [rsa(Buffer.alloc(256, 0xfe)), KEY],
  [{ approvers: [{ ...carol, key: { ...carol.key, e: 'Aw' } }] }, KEY],
  [origin('https://drs.example/'), `approvers[0].origin: it is "https://drs.example/", ${ORIGIN}`],
  [origin('https://DRS.example'), ORIGIN],
  [origin('https://drs.example:443'), ORIGIN],
  [origin('http://drs.example'), ORIGIN],
  [origin('http://127.0.0.1:8080'), ORIGIN],
  [origin('https://192.168.1.1'), ORIGIN],
  [origin('https://[::1]'), ORIGIN],
  [origin('null'), ORIGIN],
  [origin(7), ORIGIN],
  [{ private: 1 }, 'private: it is 1, expected true or false'],
  [{ private: null }, 'private: it is null, expected true or false'],
  [{ needed: 1 }, 'needed: it is 1, expected a number of persons from 1 to 0, the names in approvers'],
  [{ approvers: [alice], needed: 0 }, 'needed: it is 0, expected a number of persons from 1 to 1'],
  [{ approvers: [alice], needed: 1.5 }, 'needed: it is 1.5'],
  // Two passkeys of one person.
  [
    { approvers: [alice, { ...bob, name: 'Alice' }], needed: 2 },
    'needed: it is 2, expected a number of persons from 1 to 1',
  ],
])('an entry cannot have %j', (members, fault) => {
  expect(faultsOf(members)).toEqual([expect.stringContaining(fault) as unknown]);
});
