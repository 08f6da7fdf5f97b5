import fc from 'fast-check';

// Only where TEST_SEED is set: the gate takes it from its commit, so that it says the same twice. Elsewhere each run has new seeds.
// oxlint-disable-next-line typescript/no-deprecated -- the plugin that replaces them cannot be set for all properties
fc.configureGlobal({ seed: Number(process.env['TEST_SEED']) });
