/** The version of the file format; raised when a reader of the old one would go wrong. */
export const RESULTS_SCHEMA = 2;
/** The figure with this id. */
export function figureOf(results, id) {
  return results.figures.find((figure) => figure.id === id);
}
