// Piscina loads this with `require`. Of an ES module Node 20 cannot bear that: where the pool is closed at the wrong moment
// of it, an assertion in `require(esm)` ends the whole process. `import` is for the same module and has no such moment.
module.exports = import('./worker.js').then(({ default: verifyBatch }) => verifyBatch);
