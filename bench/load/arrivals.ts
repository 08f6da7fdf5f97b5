/** How requests arrive: at equal distances, or independently of each other like those of many clients. */
export type Arrivals = 'even' | 'poisson';

/** Numbers between 0 and 1, the same for the same seed (Park and Miller's generator). */
export function uniform(seed: number): () => number {
  let state = (Math.abs(Math.trunc(seed)) % 2_147_483_646) + 1;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/**
 * The time at which each request should leave, in µs after the start, in ascending order.
 *
 * @param rate mean number of requests per second
 * @param count number of requests; with `poisson` the last one leaves after about `count / rate` seconds
 */
export function intendedTimes(arrivals: Arrivals, rate: number, count: number, seed = 1): Float64Array {
  const times = new Float64Array(count);
  const random = uniform(seed);
  let at = 0;
  for (let n = 0; n < count; n++) {
    times[n] = arrivals === 'even' ? (n / rate) * 1e6 : at;
    // The gaps of a Poisson process are exponentially distributed.
    at += (-Math.log(random()) / rate) * 1e6;
  }
  return times;
}
