import { useEffect, useState } from 'preact/hooks';
import { causesOf } from './cause.js';
import { plainReason } from './plain.js';
import { describeSubject, nameOf, refusalOf, type Inspection, type Light } from './inspect.js';

interface VerdictProps {
  readonly found: Inspection;
  readonly isPlain: boolean;
  readonly isEdited: boolean;
  readonly onRestore: () => void;
}

/** The verdict, the lights, and what to do. */
export function Verdict({ found, isPlain, isEdited, onRestore }: VerdictProps) {
  const { receipts, took } = found;
  const failure = refusalOf(found);
  const [cause] = failure === null ? [] : causesOf(failure);
  const { headline, state } = headlineOf(found);
  return (
    <section class={`card verdict ${state}`} aria-labelledby="verdict-title">
      <div aria-live="polite">
        <h2 id="verdict-title">
          <Icon state={state === 'good' ? 'passed' : 'failed'} />
          {headline}
        </h2>
        {failure === null ? (
          <p>{explain(found)}</p>
        ) : isPlain && receipts.length > 0 ? (
          <p>{plainReason(found)} Ask whoever gave the authority, or the agent that makes the call.</p>
        ) : (
          <>
            <p class="code">
              <code>{failure.code}</code>{' '}
              {receipts.length > 0 && (
                <span class="note">in {describeSubject(cause?.subject ?? failure.subject)}</span>
              )}
            </p>
            <p class="message">{failure.message}</p>
            <p class="remedy">
              <b>What to do</b> {failure.suggestion}
            </p>
          </>
        )}
      </div>
      {!isPlain && <Lights lights={found.lights} />}
      <p class="foot note">
        {receipts.length > 0 &&
          `Judged here in ${took < 1 ? 'less than 1' : Math.round(took)} ms; nothing left this page. `}
        {isEdited && (
          <button type="button" onClick={onRestore}>
            Restore the original
          </button>
        )}
      </p>
    </section>
  );
}

function headlineOf({ valid, failure, gate, isCall, binding }: Inspection): {
  headline: string;
  state: 'good' | 'bad';
} {
  if (failure !== null || !valid) return { headline: 'Refused', state: 'bad' };
  if (!isCall) return { headline: 'The chain holds', state: 'good' };
  if (gate !== null && gate.code !== 'BINDING_MISMATCH')
    return { headline: 'Valid, but a gate refuses it', state: 'bad' };
  if (binding !== null && binding !== 'match') return { headline: 'Valid, but not this body', state: 'bad' };
  return { headline: 'Valid', state: 'good' };
}

/** The lights at the edge of the window while the verdict itself is out of sight: an edit far below shows at once. */
export function Strip({ found }: { readonly found: Inspection }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const verdict = document.querySelector('.verdict');
    if (verdict === null) return undefined;
    const observer = new IntersectionObserver(([entry]) => setShown(entry?.isIntersecting === false));
    observer.observe(verdict);
    return () => observer.disconnect();
  }, []);
  const { headline, state } = headlineOf(found);
  return (
    <div class={`strip ${state}${isShown ? ' shown' : ''}`} aria-hidden="true">
      <b>{headline}</b>
      <code>{refusalOf(found)?.code}</code>
      <span>
        {found.lights.map((light) => (
          <Icon key={light.block} state={light.state} />
        ))}
      </span>
    </div>
  );
}

function explain({ isCall, binding, receipts, invocation }: Inspection): string {
  if (!isCall) return 'Nobody has called under it yet: an invocation was not given.';
  if (binding === 'mismatch')
    return 'The chain holds, and the caller signed other arguments than the body says. Refuse the call.';
  if (binding === 'invalid_body')
    return 'The chain holds, but the body is not JSON with one meaning. Refuse the call.';
  const depth = receipts.length === 1 ? 'one receipt' : `${receipts.length} receipts`;
  const bound = binding === 'match' ? ' and signed exactly this body' : '. Compare the body of the call, too';
  return `The caller holds ${depth} from the principal${invocation === null ? '' : bound}. Check that you trust this principal.`;
}

function Lights({ lights }: { readonly lights: readonly Light[] }) {
  return (
    <ol class="lights" aria-label="Checks, in order">
      {lights.map(({ block, state, says }) => (
        <li key={block} class={state.replace(' ', '-')}>
          <Icon state={state} />
          <span class="block">
            <b>{block.length === 1 && block}</b> {nameOf(block)}
          </span>
          <span class="says">{state === 'failed' ? 'Failed' : says}</span>
        </li>
      ))}
    </ol>
  );
}

/** A light: its form says the same as its colour. */
function Icon({ state }: { readonly state: Light['state'] }) {
  const names = {
    passed: 'Passed',
    failed: 'Failed',
    'not reached': 'Not reached',
    'not checked': 'Not checked',
  };
  return (
    <svg
      class={`icon ${state.replace(' ', '-')}`}
      width="20"
      height="20"
      viewBox="0 0 20 20"
      role="img"
      aria-label={names[state]}
    >
      <circle cx="10" cy="10" r="9" />
      {state === 'passed' && <path d="m6 10.3 2.8 2.8L14 7.5" />}
      {state === 'failed' && <path d="m7 7 6 6m0-6-6 6" />}
      {state === 'not checked' && <path d="M6.5 10h7" />}
    </svg>
  );
}
