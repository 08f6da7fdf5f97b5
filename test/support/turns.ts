/** Counts the turns that others have until a promise settles. */
export async function countTurns(promise: Promise<unknown> | null): Promise<number> {
  let [turns, isOver] = [0, false];
  const turn = () => {
    if (isOver) return;
    turns++;
    setImmediate(turn);
  };
  setImmediate(turn);
  try {
    await promise;
  } finally {
    isOver = true;
  }
  return turns;
}
