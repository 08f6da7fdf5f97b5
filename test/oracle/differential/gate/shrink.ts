import { Game, type GateDifference, type GateStep } from './run.js';

/** Replays steps with new gates. @returns the first answer that differs from the oracle's, or `undefined` */
export async function replayGates({
  world,
  steps,
}: Pick<GateDifference, 'world' | 'steps'>): Promise<GateDifference | undefined> {
  const game = await Game.open(world);
  try {
    for (const [at, step] of steps.entries()) {
      const found = (await game.play(step)).find(({ expected, actual }) => expected !== actual);
      if (found !== undefined) return { ...found, world, steps: steps.slice(0, at + 1) };
    }
    return undefined;
  } finally {
    await game.close();
  }
}

const MAX_ATTEMPTS = 60;

/** Finds fewer steps with a wrong answer by the same way. @returns all steps if there are no fewer */
export async function shrinkGates(difference: GateDifference): Promise<GateDifference> {
  let best = difference;
  let attempts = 0;
  const attempt = async (steps: readonly GateStep[]): Promise<boolean> => {
    if (steps.length === 0 || attempts++ >= MAX_ATTEMPTS) return false;
    const found = await replayGates({ world: difference.world, steps });
    if (found?.way !== difference.way) return false;
    best = found;
    return true;
  };
  const alone: GateStep = { kind: 'ask', requests: [difference.request], together: false, aborted: false };
  if (await attempt([alone])) return best;
  if (!(await attempt([alone, alone])) && !(await attempt(difference.steps))) return difference;
  for (let size = Math.ceil(best.steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let from = 0; from < best.steps.length;) {
      const rest = best.steps.filter((_, at) => at < from || at >= from + size);
      if (!(await attempt(rest))) from += size;
    }
  return best;
}
