import { claimFamilies } from './claims.js';
import { gateFamilies } from './gate.js';
import { listFamilies } from './lists.js';
import { policyFamilies } from './policies.js';
import { relayFamilies } from './relay.js';
import { textFamilies } from './texts.js';

/** All families: those that are measured, and whose small bodies the suite sends. */
export const FAMILIES = [
  ...policyFamilies,
  ...claimFamilies,
  ...textFamilies,
  ...gateFamilies,
  ...relayFamilies,
  ...listFamilies,
];
