import { gzipSync } from 'node:zlib';
import { unsignedJwt } from './attacker.js';
import { valueNames, values } from './claims.js';
import { family, fit, type Family } from './family.js';

const BITS = Buffer.alloc(16_384);
// The longest list that is read on the main thread. Longer ones are read on another thread.
const HERE_BYTES = 256 * 1024;

/** A credential with one huge member. */
const credential = family(
  'list: a status list credential',
  {
    member: [
      'beside',
      'type',
      'issuer',
      'validFrom',
      'credentialSubject',
      'encodedList',
      '@context',
      'proof',
      'all',
    ],
    value: valueNames,
    form: ['json', 'jwt'],
    size: ['main thread', 'full'],
  },
  ({ member, value, form, size: which }, budget) =>
    fit(which === 'full' ? budget : Math.min(budget, HERE_BYTES), (size) => {
      const huge = values[value](form === 'jwt' ? size * 0.7 : size);
      const encoded = `"u${gzipSync(BITS).toString('base64url')}"`;
      const at = (name: string, ordinary: string) => (member === name ? huge : ordinary);
      const subject = `{"type":"BitstringStatusList","statusPurpose":"revocation","encodedList":${at('encodedList', encoded)}}`;
      const text =
        member === 'all'
          ? huge
          : `{"@context":${at('@context', '[]')},"type":${at('type', '["BitstringStatusListCredential"]')},"issuer":${at('issuer', '"https://i.example"')},"validFrom":${at('validFrom', '"2026-01-01T00:00:00Z"')},"proof":${at('proof', '{}')},"credentialSubject":${at('credentialSubject', subject)}${member === 'beside' ? `,"x":${huge}` : ''}}`;
      return form === 'jwt' ? `application/vc+jwt\n${unsignedJwt(text)}` : `application/vc\n${text}`;
    }),
  'list',
);

/** Status lists that their host may send. */
export const listFamilies: readonly Family[] = [credential];
