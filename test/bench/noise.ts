import { uniform } from '../../bench/load/open-loop-core.js';

/** Normally distributed numbers, the same for the same seed (Box and Muller). */
export function normal(seed: number): () => number {
  const random = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
}

/**
 * A machine whose speed changes by a factor of two, slowly and in jumps. Returns the cost at successive moments of a
 * request that should cost 1.
 */
export function unsteadyMachine(seed: number): () => number {
  const gauss = normal(seed);
  const random = uniform(seed + 1);
  let level = 0;
  return () => {
    level = 0.98 * level + 0.02 * gauss();
    if (random() < 0.05) level = 0.7 * (random() - 0.5);
    // Now and then, another program takes the core.
    const neighbour = random() < 0.1 ? random() : 0;
    return Math.exp(level + neighbour + 0.03 * gauss());
  };
}
