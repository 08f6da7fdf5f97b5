import { useState } from 'preact/hooks';
import { Copy } from '../shared/copy.js';
import type { Inspection, Settings, Subjects } from './inspect.js';
import { FORMS, isForOthers, isLive, redact, writeAs, type Form } from './share.js';

interface OutProps {
  /** What was judged: what has been pasted since then may be live. */
  readonly subjects: Subjects;
  readonly found: Inspection;
  readonly settings: Settings;
  /** The clock, in Unix seconds, whatever is assumed. */
  readonly clock: number;
}

/** Takes what is shown out of the page. A call that could still be made loses its signature, unless one insists. */
export function Out({ subjects, found, settings, clock }: OutProps) {
  const forms = (Object.keys(FORMS) as Form[]).filter((name) => name !== 'link' || isForOthers(location));
  const [form, setForm] = useState<Form>(forms[0] ?? 'bundle');
  const [insists, setInsists] = useState(false);
  const canBeMade = isLive(found, clock);
  const bundle = canBeMade && !insists ? redact(subjects.bundle) : subjects.bundle;
  const text = writeAs(form, {
    ...subjects,
    bundle,
    found,
    settings,
    page: location.origin + location.pathname,
  });
  return (
    <section class="card out" aria-labelledby="out-title">
      <h2 id="out-title">Take it with you</h2>
      <div class="tabs" role="group" aria-label="Form">
        {forms.map((name) => (
          <button type="button" key={name} aria-pressed={form === name} onClick={() => setForm(name)}>
            {FORMS[name]}
          </button>
        ))}
      </div>
      <Copy key={form} label={FORMS[form]} text={text} />
      {canBeMade && (
        <label class="check">
          <input
            type="checkbox"
            checked={insists}
            onChange={(event) => setInsists(event.currentTarget.checked)}
          />
          with the signature of the call: whoever gets it can make this call
        </label>
      )}
    </section>
  );
}
