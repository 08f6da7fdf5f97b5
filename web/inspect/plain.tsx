import { describeTool } from '../../src/issue/plain-words.js';
import { isJsonObject } from '../../src/protocol/json.js';
import { toolOf, type Tools } from '../../src/verify/tools.js';
import { showDate, showSpan } from '../shared/time.js';
import { PolicyWords, Words } from '../shared/words.js';
import { numberClaim, short, textClaim } from './decode.js';
import type { Inspection, Settings } from './inspect.js';
import { nameOfRoot } from './known.js';

/** Why a call is refused, for somebody who knows no claims and no codes. */
export function plainReason({ failure, gate, binding, isCall }: Inspection): string | null {
  if (failure !== null) {
    const isOfCall = failure.subject === 'invocation' || failure.code === 'POLICY_VIOLATION';
    switch (failure.block) {
      case 'A':
        return `${isOfCall ? 'The call' : 'A delegation'} is incomplete or damaged.`;
      case 'B':
        return isCall && isOfCall
          ? 'The call does not belong to these delegations.'
          : 'These delegations do not belong together: one was left out, exchanged or changed.';
      case 'C':
        return `Somebody else has signed ${isOfCall ? 'the call' : 'a delegation'}, or it was changed after that.`;
      case 'D':
        return isOfCall
          ? 'The call asks for something that was not allowed.'
          : 'Somebody passed on more than they were given, or is not trusted.';
      case 'E':
        return 'A delegation has ended, or has not begun yet.';
      case 'F':
        return 'A delegation, or a key, was revoked; or nobody could tell.';
      case 'binding':
        return 'What arrived is not what was signed.';
      case 'approval':
        return 'A person must say yes to this call first.';
      case 'replay':
        return 'The call was made before, or as much as was allowed has been used.';
    }
  }
  if (binding !== null && binding !== 'match') return 'What arrived is not what was signed.';
  return gate === null ? null : 'The request is another one than the call that was signed.';
}

interface PlainWordsProps {
  readonly found: Inspection;
  readonly now: number;
  /** They have the names of people. */
  readonly roots: Settings['trustedRoots'];
  /** What the operator says of tools. */
  readonly tools: Tools | null;
}

/** A few sentences for the person whose authority it is. */
export function PlainWords({ found, now, roots, tools }: PlainWordsProps) {
  const { receipts, invocation } = found;
  const reason = plainReason(found);
  const [root, leaf] = [receipts[0], receipts.at(-1)];
  if (root === undefined || leaf === undefined) return null;
  const nameOf = (did: string | null) => nameOfRoot(did, roots) ?? short(did);
  const through = receipts.slice(0, -1).map((receipt) => nameOf(textClaim(receipt, 'aud')));
  const args = invocation?.claims['args'];
  const tool = isJsonObject(args) && typeof args['tool'] === 'string' ? args['tool'] : null;
  const said = isJsonObject(args) ? toolOf(tools, args) : null;
  const ends = receipts.map((receipt) => numberClaim(receipt, 'exp')).filter((exp) => exp !== null);
  const end = ends.length === 0 ? null : Math.min(...ends);
  const call = `It calls ${tool ?? 'a tool'} on ${(invocation && textClaim(invocation, 'tool_server')) ?? 'a server'}`;
  return (
    <section class="card words-card" aria-labelledby="words-title">
      <h2 id="words-title">In plain words</h2>
      <ol>
        <li>
          <b>{nameOf(textClaim(root, 'iss'))}</b> gave authority to <b>{nameOf(textClaim(leaf, 'aud'))}</b>,{' '}
          {through.length === 0
            ? 'directly'
            : `through ${through.length > 3 ? `${through.length} others` : through.join(' and ')}`}
          .
        </li>
        <PolicyWords receipts={receipts.map(({ claims }) => claims)} />
        {said !== null && <Words title="The operator says that the tool" items={describeTool(said)} />}
        <li>
          {end === null
            ? 'It has no end.'
            : end < now
              ? `It ended ${showSpan(now - end)} ago, on ${showDate(end)}.`
              : `It ends in ${showSpan(end - now)}, on ${showDate(end)}.`}
        </li>
        <li>
          {invocation === null ? 'Nothing was called under it yet' : call}
          {reason !== null
            ? `, and must be refused. ${reason}`
            : invocation === null
              ? '.'
              : ', which the delegation allows.'}
        </li>
      </ol>
    </section>
  );
}
