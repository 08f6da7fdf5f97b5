// The same chain in other formats, in process. Each peer makes a token of `depth` delegations and returns what verifies
// it, and two calls that it must refuse.

const MILLISECONDS = 200;

/**
 * Biscuit: one root key, and a block for each attenuation, signed by the key that the block before names. It checks
 * every signature, and evaluates each block's checks as Datalog. Delegates have no identities and the call is not
 * signed: the arguments are facts that the verifier itself asserts.
 */
async function biscuit() {
  const { AuthorizerBuilder, Biscuit, KeyPair, SignatureAlgorithm } =
    await import('@biscuit-auth/biscuit-wasm');
  const limits = { max_facts: 1000, max_iterations: 100, max_time_micro: 1_000_000 };
  const root = new KeyPair(SignatureAlgorithm.Ed25519);
  const key = root.getPublicKey();
  const verify = (bytes, tool) => {
    let token = null;
    try {
      token = Biscuit.fromBytes(bytes, key);
      const builder = new AuthorizerBuilder();
      builder.addCode(
        `time(${new Date().toISOString()}); tool("${tool}"); cost(1); allow if right("${tool}");`,
      );
      const authorizer = builder.buildAuthenticated(token);
      authorizer.authorizeWithLimits(limits);
      authorizer.free();
      return true;
    } catch {
      return false;
    } finally {
      token?.free();
    }
  };
  return (depth) => {
    const builder = Biscuit.builder();
    builder.addCode('right("search"); check if time($time), $time < 2100-01-01T00:00:00Z;');
    let token = builder.build(root.getPrivateKey());
    for (let at = 1; at < depth; at++) {
      const block = Biscuit.block_builder();
      block.addCode(`check if tool("search"); check if cost($cost), $cost <= ${20 - at};`);
      token = token.appendBlock(block);
    }
    const bytes = token.toBytes();
    const forged = Uint8Array.from(bytes);
    forged[bytes.length - 5] ^= 1;
    return [() => verify(bytes, 'search'), () => verify(bytes, 'delete'), () => verify(forged, 'search')];
  };
}

/**
 * UCAN: checks every signature, that each audience is the next issuer, the time bounds, and that each capability derives
 * from its proof. Arguments are not bound; there is no status list and no consent record.
 */
async function ucanto() {
  const { Delegation } = await import('@ucanto/core');
  const { ed25519 } = await import('@ucanto/principal');
  const { Verifier } = await import('@ucanto/principal/ed25519');
  const { access, capability, Schema } = await import('@ucanto/validator');
  const callTool = capability({
    can: 'tools/call',
    with: Schema.did(),
    nb: Schema.struct({ tool: Schema.string() }),
    derives: (child, parent) =>
      child.with === parent.with && child.nb.tool === parent.nb.tool
        ? { ok: {} }
        : { error: new Error('escalation') },
  });
  const server = await ed25519.generate();
  const verify = async (archive) => {
    const { ok, error } = await Delegation.extract(archive);
    if (error) return false;
    const options = { authority: server, capability: callTool, principal: Verifier };
    const result = await access(ok, { ...options, validateAuthorization: () => ({ ok: {} }) });
    return result.error === undefined;
  };
  return async (depth) => {
    const parties = await Promise.all(Array.from({ length: depth + 2 }, () => ed25519.generate()));
    const about = { with: parties[0].did(), nb: { tool: 'search' } };
    const expiration = Math.floor(Date.now() / 1000) + 86_400;
    let proofs = [];
    for (let at = 0; at < depth; at++) {
      const between = { issuer: parties[at], audience: parties[at + 1] };
      proofs = [await callTool.delegate({ ...about, ...between, proofs, expiration })];
    }
    const callBy = async (issuer) => {
      const call = await callTool.invoke({ ...about, issuer, audience: server, proofs }).delegate();
      return (await call.archive()).ok;
    };
    const archive = await callBy(parties[depth]);
    // By somebody to whom nothing was delegated, and with a bit changed.
    const stolen = await callBy(parties[depth + 1]);
    const forged = Uint8Array.from(archive);
    forged[archive.length - 5] ^= 1;
    return [() => verify(archive), () => verify(stolen), () => verify(forged).catch(() => false)];
  };
}

/** Mean processor time of all threads, in µs, after a warm-up of the same length. */
async function cpuOf(operate) {
  let cpu = Number.NaN;
  for (let round = 0; round < 2; round++) {
    const before = process.cpuUsage();
    let count = 0;
    for (const end = performance.now() + MILLISECONDS; performance.now() < end; count++) await operate();
    const { user, system } = process.cpuUsage(before);
    cpu = (user + system) / count;
  }
  return cpu;
}

const [, , name, depths] = process.argv;
const make = await { biscuit, ucanto }[name]();
const report = [];
for (const depth of JSON.parse(depths)) {
  const [verify, ...refused] = await make(depth);
  if (!(await verify())) throw new Error(`${name} refused its own chain of depth ${depth}`);
  for (const attempt of refused)
    if (await attempt()) throw new Error(`${name} accepted a call that the chain does not give`);
  report.push({ depth, cpu: await cpuOf(verify) });
}
process.stdout.write(`\nREPORT ${JSON.stringify(report)}\n`, () => process.exit(0));
