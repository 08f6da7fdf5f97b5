import fc from 'fast-check';

// If a property test finds a planted fault at all, it finds it early. The fixed seed makes runs repeatable.
// oxlint-disable-next-line typescript/no-deprecated -- the plugin that replaces them cannot be set for all properties
fc.configureGlobal({ seed: 17, interruptAfterTimeLimit: 500, markInterruptAsFailure: false });
