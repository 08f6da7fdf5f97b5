import { describePolicy } from '../../src/issue/plain-words.js';
import { isJsonObject, type JsonObject } from '../../src/protocol/json.js';
import { readPolicy } from '../../src/protocol/policy.js';
import { numberClaim, short, textClaim } from './decode.js';
import { policyInForce } from './limits.js';
import { refusalOf, type Inspection } from './inspect.js';
import { showDate, showSpan } from './time.js';

/** Four sentences for the person whose authority it is. */
export function PlainWords({ found, now }: { readonly found: Inspection; readonly now: number }) {
  const { receipts, invocation, binding } = found;
  const failure = refusalOf(found);
  const [root, leaf] = [receipts[0], receipts.at(-1)];
  if (root === undefined || leaf === undefined) return null;
  const policies = receipts
    .map(({ claims }) => claims['policy'])
    .filter((policy) => isJsonObject(policy) && readPolicy(policy).defect === undefined) as JsonObject[];
  const isReadable = policies.length === receipts.length;
  const hands =
    receipts.length === 1
      ? 'directly'
      : `through ${receipts.length - 1} other${receipts.length > 2 ? 's' : ''}`;
  const args = invocation?.claims['args'];
  const tool = isJsonObject(args) && typeof args['tool'] === 'string' ? args['tool'] : null;
  const ends = receipts.map((receipt) => numberClaim(receipt, 'exp')).filter((exp) => exp !== null);
  const end = ends.length === 0 ? null : Math.min(...ends);
  return (
    <section class="card words-card" aria-labelledby="words-title">
      <h2 id="words-title">In plain words</h2>
      <ol>
        <li>
          <b>{short(textClaim(root, 'iss'))}</b> gave authority to <b>{short(textClaim(leaf, 'aud'))}</b>,{' '}
          {hands}.
        </li>
        <li>
          {isReadable ? describePolicy(policyInForce(policies)).join(' ') : 'What it may do cannot be read.'}
        </li>
        <li>
          {end === null
            ? 'It has no end.'
            : end < now
              ? `It ended ${showSpan(now - end)} ago, on ${showDate(end)}.`
              : `It ends in ${showSpan(end - now)}, on ${showDate(end)}.`}
        </li>
        <li>
          {invocation === null
            ? 'Nothing was called under it yet'
            : `It calls ${tool ?? 'a tool'} on ${textClaim(invocation, 'tool_server') ?? 'a server'}`}
          {failure !== null
            ? `, and must be refused: ${failure.suggestion}`
            : invocation === null
              ? '.'
              : binding === null || binding === 'match'
                ? ', which the delegation allows.'
                : ', but what arrived is not what was signed, and must be refused.'}
        </li>
      </ol>
    </section>
  );
}
