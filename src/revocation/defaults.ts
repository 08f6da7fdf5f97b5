/** The default of {@link StatusListOptions.maxWaitMs}. */
export const DEFAULT_MAX_WAIT_MS = 2_000;
