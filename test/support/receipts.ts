import { readReceiptClaims } from '../../src/protocol/claims.js';
import { parseCompactJwt } from '../../src/protocol/jwt.js';
import { Receipt } from '../../src/verify/receipt.js';

/** Rules without clock tolerance, roots and a name. */
export const RULES = {
  ...{ maxChainDepth: 16, clockSkewSecs: 0, expiryGraceSecs: 0 },
  ...{ serverIdentity: null, trustedRoots: null, tools: null, allowsUnstated: false },
};

/** Receipts as block A reads them, root first. */
export function receiptsOf(jwts: readonly string[]): Receipt[] {
  return jwts.map((jwt, at) => {
    const parts = parseCompactJwt(jwt);
    if (parts.defect !== undefined) throw new Error(parts.defect);
    const { claims, limits } = readReceiptClaims(parts.payload, at === 0, true);
    if (claims === undefined) throw new Error('not a receipt');
    return new Receipt(jwt, parts, claims, limits, at === 0);
  });
}
