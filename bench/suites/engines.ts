import { createPublicKey, verify as verifyWithNode, webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { median } from 'simple-statistics';
import { verifyEd25519 } from '../../src/signatures/in-thread.js';
import { floorOfBatch, publicKey, signed } from '../measure/floor.js';
import { ROOT } from '../run/programs.js';
import type { SignatureVector } from '../../test/support/vectors.js';
import type { Suite } from '../run/suite.js';

/** Checks signatures under one key. The key was prepared in advance, as in a service that knows its callers. */
type CheckUnderKey = (signature: Buffer, message: Buffer) => boolean | Promise<boolean>;

/** Prepares a key. Throws if the engine refuses the key. */
export type Engine = (publicKey: Buffer) => CheckUnderKey | Promise<CheckUnderKey>;

const jwkOf = (publicKey: Buffer) => ({ kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url') });

/** The Ed25519 implementations of this platform. Another one is one more entry. */
export const ENGINES = {
  'sodium-native': (publicKey) => (signature, message) => verifyEd25519(signature, message, publicKey),
  'node-crypto': (publicKey) => {
    const key = createPublicKey({ key: jwkOf(publicKey), format: 'jwk' });
    return (signature, message) => verifyWithNode(null, message, key, signature);
  },
  webcrypto: async (publicKey) => {
    const { subtle } = webcrypto;
    const key = await subtle.importKey('jwk', jwkOf(publicKey), 'Ed25519', false, ['verify']);
    return (signature, message) => subtle.verify('Ed25519', key, signature, message);
  },
} satisfies Record<string, Engine>;

export function readVectors() {
  const textOf = (name: string) => readFileSync(path.join(ROOT, 'test/vectors', name), 'utf8');
  const lines = (textOf('ed25519.jsonl') + textOf('ed25519-edge.jsonl')).trimEnd().split('\n');
  return lines.map((line) => {
    const { key, message, signature, valid } = JSON.parse(line) as SignatureVector;
    const bytes = (text: string) => Buffer.from(text, 'base64url');
    return { key: bytes(key), message: bytes(message), signature: bytes(signature), valid };
  });
}

/** How many vectors an engine gets wrong. An error counts as a refusal. */
export async function checkEngine(under: Engine, vectors: ReturnType<typeof readVectors>) {
  let [acceptedWrongly, refusedWrongly] = [0, 0];
  for (const { key, message, signature, valid } of vectors) {
    let accepted = false;
    try {
      accepted = await (await under(key))(signature, message);
    } catch {
      // Refused.
    }
    if (accepted && !valid) acceptedWrongly++;
    if (!accepted && valid) refusedWrongly++;
  }
  return { acceptedWrongly, refusedWrongly };
}

/** Number of verifications between two readings of the clock. */
const BATCH = 10;
const WARM_UP_MS = 50;
const MILLISECONDS = 250;

/** Compares other Ed25519 implementations: whether they are correct, and what they cost. */
export const engines: Suite = {
  name: 'engines',
  about: 'every Ed25519 here: published vectors accepted or refused wrongly, processor time in floors',
  run: async ({ recorder, say }) => {
    const vectors = readVectors();
    recorder.record('engines/vectors', vectors.length, 'count');
    for (const [name, engine] of Object.entries(ENGINES)) {
      const { acceptedWrongly, refusedWrongly } = await checkEngine(engine, vectors);
      recorder.record(`engines/${name}/accepted-wrongly`, acceptedWrongly);
      recorder.record(`engines/${name}/refused-wrongly`, refusedWrongly);
      await timeEngine(engine, WARM_UP_MS);
      const { cpu, floor } = await timeEngine(engine, MILLISECONDS);
      recorder.floorWas(floor);
      recorder.record(`engines/${name}/cpu`, cpu);
      say(
        `engines · ${name}: ${cpu.toFixed(1)} µs, ${acceptedWrongly} of ${vectors.length} accepted wrongly`,
      );
    }
  },
};

/**
 * Processor time of one verification, measured one after the other. It includes all threads, since some engines have
 * threads of their own. The floor is measured in turn with it, so that both see the machine at the same speed.
 */
async function timeEngine(under: Engine, milliseconds: number) {
  const check = await under(publicKey);
  const costs: number[] = [];
  const floors: number[] = [];
  let next = 0;
  const end = performance.now() + milliseconds;
  do {
    floors.push(floorOfBatch(BATCH));
    const before = process.cpuUsage();
    for (let at = 0; at < BATCH; at++) {
      const { signature, message } = signed[next++ % signed.length] as (typeof signed)[number];
      const pending = check(signature, message);
      // Do not await a result that is already there: that costs a turn of the microtask queue.
      if (!(typeof pending === 'boolean' ? pending : await pending))
        throw new Error('it refused a signature that libsodium made');
    }
    const { user, system } = process.cpuUsage(before);
    costs.push((user + system) / BATCH);
  } while (performance.now() < end);
  return { cpu: median(costs), floor: median(floors) };
}
