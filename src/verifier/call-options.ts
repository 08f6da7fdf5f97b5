import { checkedOptions, flag, kindOf, text, type GivenOptions, type Table } from '../protocol/options.js';
import type { Body } from '../verify/binding.js';
import { asksForDetails, toVerdict, type Verdict } from './verdict.js';
import { judge, type Call, type Judgement } from '../verify/judge.js';
import type { JudgeParts } from '../verify/parts.js';

/** The time in Unix seconds. */
export const clock = (): number => Math.floor(Date.now() / 1000);

export const CALL_OPTIONS = {
  /** The body of the call, as a JSON value: triggers the binding check. Overrides a `body` member of the bundle. */
  body: { kind: kindOf<unknown>('any value', () => true) },
  /**
   * The body of the call as JSON text. Unlike `body`, it shows duplicate names and rounded numbers. Replaces `body`.
   */
  bodyText: { kind: text('a text', () => true) },
  /** Whether a valid verdict should have `details`. A member `details: true` of the bundle requests them too. */
  details: { kind: flag },
  /** The verification time in Unix seconds; by default the current time. Anything but a finite number is a TypeError. */
  now: { kind: kindOf<number>('Unix seconds', Number.isFinite) },
} satisfies Table;

/** Options of a single call of `verify`. */
export interface VerifyOptions extends GivenOptions<typeof CALL_OPTIONS> {}

/** Verifies a bundle; see `Verifier.verify`. */
export type Verify = (bundle: unknown, options?: VerifyOptions) => Promise<Verdict>;

type PartsOf = () => JudgeParts | Promise<JudgeParts>;

/** By the function `verify`, not by its verifier: somebody may replace it by one of their own, which must then decide. */
const partsOf = new WeakMap<object, PartsOf>();

/** The function `verify` of a verifier in this process. */
export function verifyWith(parts: PartsOf): Verify {
  const verify: Verify = async (bundle, options) => {
    const { request, details } = readCall(bundle, options);
    return toVerdict(await judge(request, await parts()), details);
  };
  partsOf.set(verify, parts);
  return verify;
}

/** What the function of a verifier judges with that {@link verifyWith} has made; `undefined` for any other. */
export function partsBehind({ verify }: { readonly verify: object }): PartsOf | undefined {
  return partsOf.get(verify);
}

/**
 * What such a function decides, before a verdict is made of it: a gate goes on from the chain that was proved, and reads no receipt a
 * second time. `undefined` for any other.
 *
 * @returns takes also whether the caller asks for a person's yes itself
 */
export function judgeBehind(
  verifier: Parameters<typeof partsBehind>[0],
): ((bundle: unknown, options?: VerifyOptions, asks?: boolean) => Promise<Judgement>) | undefined {
  const parts = partsBehind(verifier);
  if (parts === undefined) return undefined;
  return async (bundle, options, asks) => judge(readCall(bundle, options, asks).request, await parts());
}

/** What a call of `verify` asks. @throws TypeError for an unknown option: a misspelt `body` would be compared with nothing */
function readCall(
  bundle: unknown,
  given: VerifyOptions = {},
  asks?: boolean,
): { request: Call; details: boolean } {
  const options = checkedOptions(given, CALL_OPTIONS);
  const { now } = options;
  try {
    const { details = asksForDetails(bundle) } = options;
    return { request: { bundle, body: givenBodyOf(bundle, options), now, asks }, details };
  } catch {
    // A value that throws when it is read. The bundle is no bundle: a verdict without its body could be valid.
    return { request: { bundle: 'unreadable', body: null, now }, details: false };
  }
}

function givenBodyOf(bundle: unknown, { body, bodyText }: VerifyOptions): Body | null {
  if (bodyText !== undefined) return { kind: 'text', text: bodyText };
  if (body !== undefined) return { kind: 'value', value: body };
  if (typeof bundle !== 'object' || bundle === null || !Object.hasOwn(bundle, 'body')) return null;
  return { kind: 'value', value: (bundle as { body: unknown }).body };
}
