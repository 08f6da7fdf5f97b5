/** Why a request that asked for a verdict or a decision was answered without one. */
export const REJECTIONS = [
  'malformed',
  'too_large',
  'timeout',
  'overloaded',
  'rate_limited',
  'foreign_origin',
  'shutting_down',
  'internal',
] as const;

/** A label of {@link REJECTIONS}. */
export type Rejection = (typeof REJECTIONS)[number];

/** A counter for each reason. */
export function noRejections(): Record<Rejection, number> {
  return Object.fromEntries(REJECTIONS.map((reason) => [reason, 0])) as Record<Rejection, number>;
}
