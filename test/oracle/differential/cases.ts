import { createHash } from 'node:crypto';
import type { Step, Request } from './request.js';
import { explain, type Difference } from './run.js';
import type { TargetKind, World } from './targets.js';

/** A stored counterexample. It can be replayed without a generator. */
export interface Case {
  readonly expected: string;
  readonly actual: string;
  readonly target: TargetKind;
  readonly world: Omit<World, 'remote'> & { readonly remote: string };
  readonly steps: readonly Step[];
  /** The last request, decoded for people. */
  readonly explained: Readonly<Record<string, unknown>>;
}

export function toCase({ expected, actual, target, world, steps, request }: Difference): Case {
  return {
    expected,
    actual,
    target,
    world: { ...world, remote: toHex(world.remote) },
    steps: steps.map((step) =>
      step.kind === 'revoke' ? step : { ...step, request: withoutRecipe(step.request) },
    ),
    explained: explain(request),
  };
}

export const worldOf = ({ world }: Case): World => ({ ...world, remote: fromHex(world.remote) });

/** A status list as text, in hex. */
export function toHex(remote: World['remote']): string {
  return remote instanceof Uint8Array ? `hex:${Buffer.from(remote).toString('hex')}` : remote;
}

export function fromHex(text: string): World['remote'] {
  if (text === 'none' || text === 'unavailable') return text;
  return Uint8Array.from(Buffer.from(text.replace('hex:', ''), 'hex'));
}

export function fileName(found: Case): string {
  const words = `${found.actual.split(' ')[0]}-not-${found.expected.split(' ')[0]}`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-');
  return `${words}-${createHash('sha256').update(JSON.stringify(found.steps)).digest('hex').slice(0, 8)}.json`;
}

function withoutRecipe(request: Request): Request {
  const copy: { recipe?: unknown } = { ...request };
  delete copy.recipe;
  return copy as Request;
}
