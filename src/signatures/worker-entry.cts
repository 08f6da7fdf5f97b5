// Piscina loads this with `require`. Were it an ES module, Node 20 would end the whole process by an assertion in
// `require(esm)` where the pool is closed at the wrong moment; `import` has no such moment.
module.exports = import('./worker.js').then(({ default: verifyBatch }) => verifyBatch);
