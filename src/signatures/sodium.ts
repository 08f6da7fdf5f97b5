import { createRequire } from 'node:module';

/**
 * libsodium. An `import` of its binding would first search 100 kB of CommonJS for the names of its exports: a fifth of the
 * processor time in which the service starts, and as much again in each thread of its pool.
 */
export const sodium = createRequire(import.meta.url)('sodium-native') as typeof import('sodium-native');
