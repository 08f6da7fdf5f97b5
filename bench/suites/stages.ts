import { digestOf } from '../../src/protocol/jwt.js';
import { isJsonObject } from '../../src/protocol/json.js';
import { decodeUtf8 } from '../../src/protocol/utf8.js';
import { CheckState, SLOT_BYTES, SlotReader, SlotWriter } from '../../src/signatures/slot.js';
import { verifyEd25519 } from '../../src/signatures/in-thread.js';
import { toVerdictJson } from '../../src/verifier/verdict.js';
import { bindMember } from '../../src/verify/binding.js';
import { checkStructure, type Structure } from '../../src/verify/blocks/a-structure.js';
import { checkCallLinkage, checkReceiptLinkage } from '../../src/verify/blocks/b-linkage.js';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { planSignatures } from '../../src/verify/blocks/c-signatures.js';
import { checkCallPolicy, checkReceiptPolicies } from '../../src/verify/blocks/d-policy.js';
import { checkTime } from '../../src/verify/blocks/e-time.js';
import { checkRevocation } from '../../src/verify/blocks/f-revocation.js';
import { Failure } from '../../src/verify/codes.js';
import { openBundle, proveBundle } from '../../src/verify/judge.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import { Chain } from '../../src/verify/receipt.js';
import { costOf } from '../measure/time-operation.js';
import type { Suite } from '../run/suite.js';
import { CALL_ARGS, makeCall, makeChain } from '../workload/chains.js';
import { RULES } from './rules.js';

/** The stages of a verification in the order in which they run. The report uses these names and this order. */
export const STAGES = [
  'parse',
  'decode',
  'digest',
  'linkage',
  'keys',
  'hand-over',
  'signatures',
  'policy',
  'time',
  'remember',
  'revocation',
  'binding',
  'serialise',
] as const;

type Stage = (typeof STAGES)[number];
type Temperature = 'warm' | 'cold';

/** Measures how the time of a verification is distributed. */
export const stages: Suite = {
  name: 'stages',
  about: 'parse, decode, digest, linkage, … serialise: time and bytes allocated, one thread, in process',
  isIsolated: true,
  run: async ({ plan, recorder, say }) => {
    for (let run = 1; run <= plan.runs; run++) {
      for (const depth of plan.coreDepths) {
        for (const temperature of ['warm', 'cold'] as const) {
          recorder.measureFloor();
          const operations = operationsOf(depth, temperature);
          for (const stage of STAGES) {
            const parameters = { stage, depth, traffic: temperature };
            const id = `stages/${temperature}/d${depth}/${stage}`;
            const { microseconds, bytes } = await costOf(operations[stage], plan.inProcessMs / 4);
            recorder.record({
              id: `${id}/time`,
              unit: 'µs',
              better: 'lower',
              value: microseconds,
              parameters,
            });
            if (bytes === null) continue;
            recorder.record({ id: `${id}/bytes`, unit: 'bytes', better: 'lower', value: bytes, parameters });
          }
          say(`stages · ${temperature}, depth ${depth}, run ${run} of ${plan.runs}`);
        }
      }
    }
  },
};

/** Makes an operation for each stage. The results of earlier stages are prepared here. */
function operationsOf(depth: number, temperature: Temperature): Readonly<Record<Stage, () => unknown>> {
  const cache = new ReceiptCache(temperature === 'warm' ? 64 * 1024 * 1024 : 0);
  const chain = makeChain(depth);
  const body = Buffer.from(withBody(makeCall(chain).body));
  const asSent = body.toString();
  const proved = prove(JSON.parse(makeCall(chain).body), cache);
  const bundle = JSON.parse(asSent) as unknown;
  if (!isJsonObject(bundle)) throw new Error('a bundle of the suite is not an object');
  const structure = structureOf(bundle, cache);
  if ((structure.chain !== null) !== (temperature === 'warm'))
    throw new Error(`the chain is not ${temperature}: it is${structure.chain === null ? ' not' : ''} known`);
  const plan = planSignatures(structure, DEFAULT_KEYS);
  const now = Math.floor(Date.now() / 1000);
  const slot = Buffer.from(new SharedArrayBuffer(SLOT_BYTES));
  const writer = new SlotWriter(slot);
  const reader = new SlotReader(Buffer.alloc(SLOT_BYTES));
  const states = new Uint8Array(plan.checks.length);
  const handOver = () => {
    writer.clear();
    for (const check of plan.checks) writer.write(check);
    reader.fill(slot.subarray(0, writer.bytes));
  };
  handOver();
  const view = { remoteStatusOf: () => 'not_configured' as const, isRevokedLocally: () => false };
  const { invocation } = structure;
  const unread = structure.chain === null ? structure.receipts : [];
  return {
    parse: () => JSON.parse(decodeUtf8(body) ?? '') as unknown,
    decode: () => structureOf(bundle, cache),
    digest: () => unread.map(({ jwt }) => digestOf(jwt)),
    linkage: () => {
      if (structure.chain === null) mustPass(checkReceiptLinkage(structure.receipts));
      mustPass(checkCallLinkage(structure));
    },
    keys: () => planSignatures(structure, DEFAULT_KEYS),
    'hand-over': handOver,
    signatures: () => {
      reader.verify(plan.checks.length, states.fill(CheckState.open), verifyEd25519);
      if (!states.every((state) => state === CheckState.verified))
        throw new Error('a signature of the suite did not verify');
    },
    policy: () => {
      if (structure.chain === null) mustPass(checkReceiptPolicies(structure.receipts, RULES));
      mustPass(checkCallPolicy(structure, RULES));
    },
    time: () => mustPass(checkTime(structure, now, 0)),
    remember: () => structure.chain ?? new Chain(structure.receipts, DEFAULT_KEYS),
    revocation: () => mustPass(checkRevocation(proved, view)),
    binding: () => {
      if (bindMember(invocation.claims.args, asSent, bundle) !== 'match')
        throw new Error('the body did not match');
    },
    serialise: () => toVerdictJson({ chain: proved, invocation, binding: 'match', failure: null }, false),
  };
}

const withBody = (body: string) => JSON.stringify({ ...(JSON.parse(body) as object), body: CALL_ARGS });

function prove(bundle: unknown, cache: ReceiptCache): Chain {
  const deps = { rules: RULES, cache, keys: DEFAULT_KEYS };
  const opened = openBundle(bundle, deps);
  if (opened instanceof Failure) throw new Error(`a bundle of the suite was refused: ${opened.message}`);
  const verified = opened.plan.checks.map(() => true);
  const chain = proveBundle(opened, verified, Math.floor(Date.now() / 1000), deps);
  if (chain instanceof Failure) throw new Error(`a bundle of the suite was refused: ${chain.message}`);
  return chain;
}

function structureOf(bundle: unknown, cache: ReceiptCache): Structure {
  const structure = checkStructure(bundle, RULES, cache);
  if (structure instanceof Failure)
    throw new Error(`a bundle of the suite was refused: ${structure.message}`);
  return structure;
}

function mustPass(failure: Failure | null): void {
  if (failure !== null) throw new Error(`a bundle of the suite was refused: ${failure.message}`);
}
