/** The default of {@link StatusListOptions.maxWaitMs}. */
export const DEFAULT_MAX_WAIT_MS = 2_000;

/** The default of {@link RevocationOptions.maxEntries}. */
export const DEFAULT_MAX_ENTRIES = 1_000_000;
