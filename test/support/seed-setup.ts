import fc from 'fast-check';

// Only where TEST_SEED is set: the gate takes it from its commit, so that it says the same twice. Elsewhere each run has new seeds.
fc.configureGlobal({ seed: Number(process.env['TEST_SEED']) });
