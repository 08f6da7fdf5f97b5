import {
  childClaims,
  invocationClaims,
  party,
  rootClaims,
  signJwt,
  type Overrides,
  type Party,
} from '../support/chain.js';

/** JSON text that is put into a payload unchanged: duplicate names, odd numbers, white space. */
export class Raw {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A request to `/verify` that an attacker makes and signs with their own keys. */
export interface Attack {
  /** Receipts in the chain; default 1. */
  readonly depth?: number;
  /** Claims that replace the ordinary ones in the receipt at an index (0 is the root). */
  readonly receipt?: (index: number) => Overrides;
  readonly invocation?: Overrides;
  /** The JSON text of the `body` member. */
  readonly body?: string;
  readonly header?: unknown;
  /** Changes each JWT before the next one refers to it, for example by breaking its signature. */
  readonly alter?: (jwt: string) => string;
}

// Making keys takes time. An attacker makes them only once too.
const PARTIES: readonly Party[] = Array.from({ length: 18 }, party);

/** The JSON text of a whole request. */
export function signedRequest({
  depth = 1,
  receipt,
  invocation,
  body,
  header,
  alter = (jwt) => jwt,
}: Attack): string {
  const at = (index: number) => PARTIES[index % PARTIES.length] as Party;
  const sign = (claims: Overrides, signer: Party) => alter(signJwt(write(claims), signer, header));
  const receipts: string[] = [];
  for (let index = 0; index < depth; index++) {
    const overrides = receipt?.(index) ?? {};
    const claims =
      index === 0
        ? rootClaims(at(0), at(1), overrides)
        : childClaims(receipts[index - 1] as string, at(0), at(index), at(index + 1), overrides);
    receipts.push(sign(claims, at(index)));
  }
  const call = sign(invocationClaims(receipts, at(0), at(depth), invocation), at(depth));
  return request({ receipts: JSON.stringify(receipts), invocation: JSON.stringify(call), body });
}

/** A request that anyone can send, made from the JSON texts of its members. */
export function request({
  version = '"4.0"',
  receipts = '["a.b.c"]',
  invocation = '"a.b.c"',
  body,
}: {
  readonly version?: string;
  readonly receipts?: string;
  readonly invocation?: string;
  readonly body?: string | undefined;
}): string {
  const rest = body === undefined ? '' : `,"body":${body}`;
  return `{"bundle_version":${version},"receipts":${receipts},"invocation":${invocation}${rest}}`;
}

/** A JWT with this payload and a signature that does not verify under any key. */
export function unsignedJwt(payload: string, header = '{"alg":"EdDSA","typ":"JWT"}'): string {
  const segment = (text: string) => Buffer.from(text).toString('base64url');
  return `${segment(header)}.${segment(payload)}.${'A'.repeat(86)}`;
}

/** Writes claims as JSON, with every {@link Raw} unchanged. */
function write(claims: Overrides): string {
  const texts: string[] = [];
  const json = JSON.stringify(claims, (_name, value: unknown) =>
    value instanceof Raw ? `@raw ${texts.push(value.text) - 1}@` : value,
  );
  return texts.length === 0
    ? json
    : json.replace(/"@raw (\d+)@"/g, (_all, index: string) => texts[Number(index)] as string);
}
