import {
  AuthorizerBuilder,
  Biscuit,
  KeyPair,
  SignatureAlgorithm,
  type PublicKey,
} from '@biscuit-auth/biscuit-wasm';
import { readJob, timeRepeated, type InProcessReport, type VerdictCost } from './in-process-report.js';

// Biscuit: one root key, and a block for each attenuation, signed by the key that the block before names. It checks
// every signature, and evaluates each block's checks as Datalog. Delegates have no identities and the call is not
// signed: the arguments are facts that the verifier itself asserts.
const LIMITS = { max_facts: 1000, max_iterations: 100, max_time_micro: 1_000_000 };

function makeToken(depth: number, root: KeyPair): Uint8Array {
  const builder = Biscuit.builder();
  builder.addCode('right("search"); check if time($time), $time < 2100-01-01T00:00:00Z;');
  let token = builder.build(root.getPrivateKey());
  for (let at = 1; at < depth; at++) {
    const block = Biscuit.block_builder();
    block.addCode(`check if tool("search"); check if cost($cost), $cost <= ${20 - at};`);
    token = token.appendBlock(block);
  }
  return token.toBytes();
}

function verify(bytes: Uint8Array, key: PublicKey, tool: string): boolean {
  let token: Biscuit | null = null;
  try {
    token = Biscuit.fromBytes(bytes, key);
    const builder = new AuthorizerBuilder();
    builder.addCode(
      `time(${new Date().toISOString()}); tool("${tool}"); cost(1); allow if right("${tool}");`,
    );
    const authorizer = builder.buildAuthenticated(token);
    authorizer.authorizeWithLimits(LIMITS);
    authorizer.free();
    return true;
  } catch {
    return false;
  } finally {
    token?.free();
  }
}

const job = readJob();
const root = new KeyPair(SignatureAlgorithm.Ed25519);
const key = root.getPublicKey();
const report: (VerdictCost & { depth: number })[] = [];
for (const depth of job.depths) {
  const bytes = makeToken(depth, root);
  if (!verify(bytes, key, 'search')) throw new Error(`Biscuit refused its own token of ${depth} blocks`);
  if (verify(bytes, key, 'delete')) throw new Error('Biscuit accepted a tool that the token does not give');
  const forged = Uint8Array.from(bytes);
  forged[bytes.length - 5] = (forged[bytes.length - 5] ?? 0) ^ 1;
  if (verify(forged, key, 'search')) throw new Error('Biscuit accepted a forged token');
  report.push({
    depth,
    ...(await timeRepeated(() => verify(bytes, key, 'search'), job.milliseconds)),
  });
}
process.stdout.write(`\nREPORT ${JSON.stringify(report satisfies InProcessReport)}\n`, () => process.exit(0));
