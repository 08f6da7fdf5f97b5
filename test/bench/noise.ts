import { uniform } from '../../bench/load/arrivals.js';

/** Normally distributed numbers, the same for the same seed (Box and Muller). */
export function normal(seed: number): () => number {
  const random = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
}

/**
 * A machine whose speed swings by a factor of two, in drifts and in jumps: what a request costs that should cost 1, at
 * one moment after the other.
 */
export function unsteadyMachine(seed: number): () => number {
  const gauss = normal(seed);
  const random = uniform(seed + 1);
  let level = 0;
  return () => {
    level = 0.98 * level + 0.02 * gauss();
    if (random() < 0.05) level = 0.7 * (random() - 0.5);
    // A neighbour that takes the core now and then.
    const neighbour = random() < 0.1 ? random() : 0;
    return Math.exp(level + neighbour + 0.03 * gauss());
  };
}
