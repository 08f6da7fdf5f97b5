import { useState } from 'preact/hooks';

interface CopyProps {
  readonly label: string;
  readonly text: string;
}

/** A text to take along. */
export function Copy({ label, text }: CopyProps) {
  const [said, setSaid] = useState('');
  const copy = async () => {
    try {
      // There is no clipboard where the page came over plain HTTP from elsewhere.
      await navigator.clipboard.writeText(text);
      setSaid('Copied');
    } catch {
      setSaid('The browser does not allow it: select the text and copy it');
    }
  };
  return (
    <>
      <textarea class="copy" aria-label={label} readOnly rows={4} value={text} />
      <p class="row">
        <button type="button" class="main" onClick={() => void copy()}>
          Copy
        </button>
        <span class="note" aria-live="polite">
          {said}
        </span>
      </p>
    </>
  );
}
