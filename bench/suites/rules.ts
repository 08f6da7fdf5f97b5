import { readVerifierOptions } from '../../src/verifier/options.js';
import type { Rules } from '../../src/verify/rules.js';

const { maxChainDepth, clockSkewSecs } = readVerifierOptions({});

/** The rules of a verifier with default options. */
export const RULES: Rules = { maxChainDepth, clockSkewSecs, serverIdentity: null, trustedRoots: null };
