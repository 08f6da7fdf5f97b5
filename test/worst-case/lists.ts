import { gzipSync } from 'node:zlib';
import { unsignedJwt } from './attacker.js';
import { valueNames, values } from './claims.js';
import { family, fit, type Family } from './family.js';

const pack = (bits: Buffer) => `"u${gzipSync(bits).toString('base64url')}"`;
const PACKED = {
  // The least that W3C asks for.
  small: pack(Buffer.alloc(16_384)),
  // As much as a list may unpack to.
  large: pack(Buffer.alloc(16 * 1024 * 1024)),
};

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
    bits: ['small', 'large'],
  },
  ({ member, value, form, bits }, budget) =>
    fit(budget, (size) => {
      const huge = values[value](form === 'jwt' ? size * 0.7 : size);
      const at = (name: string, ordinary: string) => (member === name ? huge : ordinary);
      const subject = `{"type":"BitstringStatusList","statusPurpose":"revocation","encodedList":${at('encodedList', PACKED[bits])}}`;
      const text =
        member === 'all'
          ? huge
          : `{"@context":${at('@context', '[]')},"type":${at('type', '["BitstringStatusListCredential"]')},"issuer":${at('issuer', '"https://i.example"')},"validFrom":${at('validFrom', '"2026-01-01T00:00:00Z"')},"proof":${at('proof', '{}')},"credentialSubject":${at('credentialSubject', subject)}${member === 'beside' ? `,"x":${huge}` : ''}}`;
      return form === 'jwt' ? unsignedJwt(text) : text;
    }),
  'list',
);

/** Status lists that their host may send. */
export const listFamilies: readonly Family[] = [credential];
