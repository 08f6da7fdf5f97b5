import { median } from 'simple-statistics';
import sodium from 'sodium-native';

/** The length of the signing input of an ordinary invocation. Fixed, so that floors of different versions compare. */
const FLOOR_MESSAGE_BYTES = 900;
const BATCH = 50;

export const publicKey = Buffer.alloc(sodium.crypto_sign_PUBLICKEYBYTES);
const secretKey = Buffer.alloc(sodium.crypto_sign_SECRETKEYBYTES);
sodium.crypto_sign_keypair(publicKey, secretKey);

// All messages differ, as for a service. Verifying the same signature again and again is 6 % cheaper, because the
// processor learns the branches of its scalar.
export const signed = Array.from({ length: 20 * BATCH }, (_, at) => {
  const message = Buffer.alloc(FLOOR_MESSAGE_BYTES, `drs ${at} `);
  const signature = Buffer.alloc(sodium.crypto_sign_BYTES);
  sodium.crypto_sign_detached(signature, message, secretKey);
  return { message, signature };
});

let next = 0;

/** Processor time of one libsodium verification in µs: the mean of many. */
export function floorOfBatch(count: number): number {
  const start = process.cpuUsage();
  for (let at = 0; at < count; at++) {
    const { message, signature } = signed[next++ % signed.length] as (typeof signed)[number];
    if (!sodium.crypto_sign_verify_detached(signature, message, publicKey)) {
      throw new Error('libsodium did not verify its own signature: its installation is broken; run npm ci');
    }
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / count;
}

/**
 * The floor: one libsodium Ed25519 verification of an invocation-sized message on this thread, in µs of processor time
 * (so that waiting for a core does not count); the median of batches of 50.
 */
export function measureFloor(seconds = 0.1): number {
  const batches: number[] = [];
  const end = performance.now() + seconds * 1000;
  do batches.push(floorOfBatch(BATCH));
  while (performance.now() < end);
  return median(batches);
}
