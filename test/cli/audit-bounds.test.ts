import { describe, expect, it } from 'vitest';
import { auditBundle } from '../../src/cli/audit-report.js';
import { showAudit } from '../../src/cli/audit-text.js';
import { printableJson } from '../../src/cli/terminal.js';
import { generateKey, signClaims, type JsonObject, type JsonValue } from '../../src/issue/index.js';

const key = generateKey();
const receipt = (policy: JsonObject) =>
  signClaims(
    {
      drs_type: 'delegation-receipt',
      drs_v: '4.0',
      iss: key.did,
      aud: key.did,
      sub: key.did,
      cmd: '/mcp/tools/call',
      policy,
      iat: 1_900_000_000,
      nbf: 1_900_000_000,
      exp: 1_900_003_600,
      jti: 'dr:1',
      prev_dr_hash: null,
      drs_root_type: 'organisation',
    },
    key,
  );
// More than a function call can take arguments.
const MANY = Object.fromEntries(Array.from({ length: 130_000 }, (_, at) => [`acme:${at}`, at]));
const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as JsonValue;

describe('an audit shows whatever a bundle holds', () => {
  it('130,000 policy members', async () => {
    const jwt = await receipt(MANY);
    const shown = showAudit(auditBundle({ receipts: [jwt, jwt] }));
    expect(shown).toContain('policy.acme:129999  129999\n');
    expect(shown).toContain('policy.acme:129999  129999  unchanged\n');
  });

  it('130,000 arguments', async () => {
    const invocation = await signClaims({ args: MANY }, key);
    expect(showAudit(auditBundle({ receipts: [], invocation }))).toContain('acme:129999');
  });

  it('values that nest deeper than any program can write', () => {
    const deep = nested(200_000);
    const report = auditBundle({ bundle_version: deep, receipts: [deep], invocation: deep });
    expect(showAudit(report)).toContain('[[[[[[[[');
    expect(() => JSON.parse(printableJson(report, 2)) as unknown).not.toThrow();
  });
});
