import { useState } from 'preact/hooks';
import { equalsByJcs, isJsonObject, type JsonObject, type JsonValue } from '../../src/protocol/json.js';
import { readPolicy } from '../../src/protocol/policy.js';
import { findPolicyEscalation } from '../../src/verify/attenuation.js';
import { findViolation, toolOf, type Tool } from '../../src/verify/tools.js';
import { describeTool } from '../../src/issue/plain-words.js';
import { CLOCKS } from '../../src/verify/parts.js';
import { show } from '../../src/verify/codes.js';
import { describeDifference } from '../../src/verify/difference.js';
import { showDate } from '../shared/time.js';
import { nestsTooDeep, parseOrUndefined, short, textClaim } from './decode.js';
import { Editor } from './editor.js';
import type { Inspection } from './inspect.js';
import type { GivenTools } from './known.js';
import { domainOf } from './time.js';

/** What the reader has set, as it is in the fields. */
export interface Assumptions {
  /** Unix seconds; `null` is the clock. */
  readonly now: number | null;
  readonly clockSkewSecs: number;
  readonly serverIdentity: string;
  readonly trustedRoots: string;
  readonly tools: string;
  readonly requireBinding: boolean;
}

export const NOTHING_ASSUMED: Assumptions = {
  ...{
    now: null,
    clockSkewSecs: CLOCKS.clockSkewSecs,
    serverIdentity: '',
    trustedRoots: '',
    tools: '',
    requireBinding: false,
  },
};

interface WhatIfProps {
  readonly found: Inspection;
  readonly given: Assumptions;
  readonly now: number;
  readonly body: string | null;
  /** What of the trusted principals cannot be used. */
  readonly problem: string | null;
  readonly operator: GivenTools;
  readonly onChange: (next: Assumptions) => void;
  readonly onBody: (body: string | null) => void;
}

/** The settings of a verifier, to be played with. */
export function WhatIf({ found, given, now, body, problem, operator, onChange, onBody }: WhatIfProps) {
  const set = (change: Partial<Assumptions>) => onChange({ ...given, ...change });
  const { from, to } = domainOf(found.receipts, found.invocation, now);
  const root = found.receipts[0];
  const principal = root === undefined ? null : textClaim(root, 'iss');
  const args = argsOf(found);
  const tool = args === null ? null : toolOf(operator.tools, args);
  const said = tool === null ? [] : describeTool(tool);
  const server = found.invocation === null ? null : textClaim(found.invocation, 'tool_server');
  return (
    <section class="card what-if" aria-labelledby="what-if-title">
      <h2 id="what-if-title">What if</h2>
      <div class="field">
        <label for="now">it were checked at</label>
        <div class="row">
          <input
            id="now"
            type="datetime-local"
            step="1"
            value={toLocal(now)}
            onInput={(event) => set({ now: fromLocal(event.currentTarget.value) })}
          />
          <button type="button" disabled={given.now === null} onClick={() => set({ now: null })}>
            Now
          </button>
        </div>
        <input
          type="range"
          aria-label="Time of the check"
          aria-valuetext={showDate(now)}
          min={Math.floor(from)}
          max={Math.ceil(to)}
          value={now}
          step={Math.max(1, Math.round((to - from) / 500))}
          onInput={(event) => set({ now: Number(event.currentTarget.value) })}
        />
      </div>
      <div class="field">
        <label for="skew">other clocks may be ahead by (seconds)</label>
        <input
          id="skew"
          type="number"
          min="0"
          max="86400"
          value={given.clockSkewSecs}
          onInput={(event) =>
            set({
              clockSkewSecs: Math.min(
                86_400,
                Math.max(0, Math.floor(Number(event.currentTarget.value)) || 0),
              ),
            })
          }
        />
      </div>
      <div class="field">
        <label for="server">the tool server were</label>
        <input
          id="server"
          type="text"
          placeholder={server === null ? 'any' : `any, such as ${server}`}
          value={given.serverIdentity}
          onInput={(event) => set({ serverIdentity: event.currentTarget.value.trim() })}
        />
      </div>
      <div class="field">
        <label for="roots">only these principals were trusted</label>
        <textarea
          id="roots"
          rows={2}
          spellcheck={false}
          placeholder="anybody"
          value={given.trustedRoots}
          aria-invalid={problem !== null}
          onInput={(event) => set({ trustedRoots: event.currentTarget.value })}
        />
        {problem !== null && <p class="note bad">{problem}</p>}
        {principal !== null && given.trustedRoots === '' && (
          <button type="button" onClick={() => set({ trustedRoots: principal })}>
            Only {short(principal)}
          </button>
        )}
      </div>
      {found.isCall && (
        <>
          <div class="field">
            <label for="tools">the operator said of tools</label>
            <textarea
              id="tools"
              rows={2}
              spellcheck={false}
              placeholder={'lines such as {"tool":"transfer","cost_usd":{"argument":"amount"}}'}
              value={given.tools}
              aria-invalid={operator.problem !== null}
              onInput={(event) => set({ tools: event.currentTarget.value })}
            />
            {operator.problem !== null && <p class="note bad">{operator.problem}</p>}
            {said.length > 0 && <p class="note">This tool {said.join('; it ')}.</p>}
          </div>
          <div class="field">
            <span class="label">the body of the call were</span>
            <Editor
              label="Body of the call"
              value={body ?? ''}
              rows={4}
              colours="json"
              placeholder="the body of the call, to compare with what was signed"
              onEdit={(text) => onBody(text === '' ? null : text)}
            />
            <label class="check">
              <input
                type="checkbox"
                checked={given.requireBinding}
                onChange={(event) => set({ requireBinding: event.currentTarget.checked })}
              />
              the verifier required the body to match
            </label>
          </div>
          {body !== null && <Difference args={found.invocation?.claims['args']} body={body} />}
          <Stricter {...{ found, tool }} />
        </>
      )}
    </section>
  );
}

function Difference({ args, body }: { readonly args: JsonValue | undefined; readonly body: string }) {
  const sent = nestsTooDeep(body) ? undefined : parseOrUndefined(body);
  if (!isJsonObject(args) || !isJsonObject(sent)) return null;
  const names = [...new Set([...Object.keys(args), ...Object.keys(sent)])].slice(0, 100);
  const rows = names.map((name) => {
    const [signed, other] = [args, sent].map((side) => (Object.hasOwn(side, name) ? side[name] : undefined));
    return {
      name,
      signed,
      other,
      isSame: signed !== undefined && other !== undefined && isEqual(signed, other),
    };
  });
  const first = describeDifference(args, { kind: 'value', value: sent });
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Body and signed arguments">
      <table class="difference">
        <caption>{first ?? 'The body says what was signed.'}</caption>
        <thead>
          <tr>
            <th scope="col">member</th>
            <th scope="col">signed</th>
            <th scope="col">body</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, signed, other, isSame }) => (
            <tr key={name} class={isSame ? '' : 'differs'}>
              <th scope="row">
                {isSame ? '' : '≠ '}
                {name}
              </th>
              <td>{show(signed)}</td>
              <td>{show(other)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function argsOf({ invocation }: Inspection): JsonObject | null {
  const args = invocation?.claims['args'];
  return isJsonObject(args) ? args : null;
}

function isEqual(left: JsonValue, right: JsonValue): boolean {
  try {
    return equalsByJcs(left, right);
  } catch {
    return false;
  }
}

/** "Would this call still pass?" under another policy of one level. Nothing is signed for it. */
function Stricter({ found, tool }: { readonly found: Inspection; readonly tool: Tool | null }) {
  const [level, setLevel] = useState(0);
  const [text, setText] = useState<string | null>(null);
  const { receipts, invocation } = found;
  const token = receipts[level] ?? receipts[0];
  if (token === undefined || invocation === null) return null;
  const own = token.claims['policy'];
  const shown = text ?? JSON.stringify(own ?? {}, null, 2);
  return (
    <details class="claims">
      <summary>A stricter policy</summary>
      <div class="field">
        <label for="level">Receipt</label>
        <select
          id="level"
          value={level}
          onChange={(event) => {
            setLevel(Number(event.currentTarget.value));
            setText(null);
          }}
        >
          {receipts.map((receipt, at) => (
            <option key={at} value={at}>
              {at}, to {short(textClaim(receipt, 'aud'))}
            </option>
          ))}
        </select>
      </div>
      <Editor label="Policy" value={shown} colours="json" onEdit={setText} />
      <p class="note" aria-live="polite">
        {wouldPass(shown, own, argsOf(found) ?? {}, tool)}
      </p>
    </details>
  );
}

function wouldPass(text: string, own: JsonValue | undefined, args: JsonObject, tool: Tool | null): string {
  const policy = nestsTooDeep(text) ? undefined : parseOrUndefined(text);
  if (!isJsonObject(policy)) return 'This is not a JSON object.';
  const { limits, defect } = readPolicy(policy);
  if (defect !== undefined) return `${defect.name} is ${show(defect.found)}, expected ${defect.expected}.`;
  const broken = findViolation(limits, args, tool);
  if (broken !== null)
    return `This call would be refused: args.${broken.argument} is ${show(broken.claimed)}, and ${broken.member} allows ${show(broken.allowed)}.`;
  const wider = isJsonObject(own) ? findPolicyEscalation(own, policy) : null;
  return wider === null
    ? 'This call would still pass.'
    : `This call would pass, but the policy is wider than now: ${wider.member} is ${show(wider.claimed)}.`;
}

function toLocal(seconds: number): string {
  const date = new Date((seconds - new Date(seconds * 1000).getTimezoneOffset() * 60) * 1000);
  return Number.isNaN(date.getTime()) ? '' : date.toISOString().slice(0, 19);
}

function fromLocal(text: string): number | null {
  const milliseconds = new Date(text).getTime();
  return Number.isNaN(milliseconds) ? null : Math.floor(milliseconds / 1000);
}
