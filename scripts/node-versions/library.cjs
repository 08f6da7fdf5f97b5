// The same from CommonJS: `await import()` everywhere, `require()` where Node can (20.19, 22.12 and later).
/* oxlint-disable typescript/no-require-imports -- whether it works is what is checked */
const { makeCall } = require('./call.cjs');

async function main() {
  const { createVerifier } = await import('drs-verify');
  const { args, bundle } = await makeCall(await import('drs-verify/issue'));
  const verifier = createVerifier({ workerThreads: 0 });
  const verdict = await verifier.verify(bundle, { body: args });
  await verifier.close();
  if (!verdict.valid) throw new Error(JSON.stringify(verdict));
  let required = 'require() as well';
  try {
    for (const entry of ['drs-verify', 'drs-verify/issue', 'drs-verify/middleware', 'drs-verify/client'])
      require(entry);
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_REQUIRE_ESM') throw error;
    required = 'not require()';
  }
  console.log(`Node ${process.versions.node}: await import(), ${required}`);
}

main().catch((/** @type {unknown} */ error) => {
  console.error(error);
  process.exitCode = 1;
});
