import { useEffect, useRef, useState } from 'preact/hooks';
import type { Mark } from './cause.js';
import { Editor } from './editor.js';
import type { ExampleName } from './example.js';
import { isAside, MAX_INPUT, recognise, type Recognised } from './recognise.js';

interface InputProps {
  readonly text: string;
  readonly words: string;
  readonly kind: Recognised['kind'];
  readonly marksIn: (text: string) => readonly Mark[];
  readonly notes: readonly (string | undefined)[];
  readonly examples: Readonly<Record<ExampleName, string>>;
  /** @returns whether the text was taken beside what is there */
  readonly onText: (text: string) => boolean;
  readonly onExample: (name: ExampleName) => void;
}

/** Where anything is pasted or dropped. */
export function Input({ text, words, kind, marksIn, notes, examples, onText, onExample }: InputProps) {
  const [isOver, setOver] = useState(false);
  const take = useRef(onText);
  take.current = onText;
  useEffect(() => {
    const over = (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      const file = event.dataTransfer?.files[0];
      // One character more than is looked at, so that the page says that it is too long.
      if (file === undefined) take.current(event.dataTransfer?.getData('text') ?? '');
      else
        void file
          .slice(0, MAX_INPUT + 1)
          .text()
          .then((content) => take.current(content));
    };
    const paste = (event: ClipboardEvent) => {
      const { target } = event;
      const isOurs = target instanceof HTMLElement && target.closest('.input .editor') !== null;
      const isField = target instanceof HTMLTextAreaElement || target instanceof HTMLInputElement;
      const text = event.clipboardData?.getData('text') ?? '';
      // What is used beside the bundle must not get into its text. Other fields have texts of their own.
      if (text === '' || (isField && !(isOurs && isAside(recognise(text))))) return;
      event.preventDefault();
      take.current(text);
    };
    document.addEventListener('paste', paste);
    document.addEventListener('dragover', over);
    document.addEventListener('dragleave', leave);
    document.addEventListener('drop', drop);
    return () => {
      document.removeEventListener('paste', paste);
      document.removeEventListener('dragover', over);
      document.removeEventListener('dragleave', leave);
      document.removeEventListener('drop', drop);
    };
  }, []);
  const state = kind === 'nothing' ? 'idle' : kind === 'unknown' ? 'bad' : 'good';
  const isEmpty = kind === 'nothing';
  const titles = Object.entries(examples) as [ExampleName, string][];
  return (
    <section class={`card input${isOver ? ' over' : ''}`} aria-labelledby="input-title">
      <h2 id="input-title">{isEmpty ? 'See a bundle, see why' : 'What you pasted'}</h2>
      {isEmpty && (
        <p class="lead">
          Paste anything that carries delegated authority: a bundle, the value of <code>X-DRS-Bundle</code>,
          receipts, a <code>curl</code> command, an HTTP or MCP request, a HAR file, a line of a log; or what
          only a service knows: limits used, revocations, trusted roots. Or drop a file.
        </p>
      )}
      <Editor
        label="Anything that carries delegated authority"
        value={text}
        marksIn={marksIn}
        colours={text.trimStart().startsWith('{') ? 'json' : 'none'}
        rows={isEmpty ? 7 : 5}
        placeholder="Paste here, or drop a file anywhere"
        describedBy="recognised"
        onEdit={onText}
      />
      <div class="row under">
        <p id="recognised" class={`recognised ${state}`} aria-live="polite">
          {words}
        </p>
        {!isEmpty && (
          <div class="row">
            <button type="button" onClick={() => onText('')}>
              Clear
            </button>
            <label class="examples">
              <span>Examples</span>
              <select
                value=""
                onChange={(event) => {
                  if (event.currentTarget.value !== '') onExample(event.currentTarget.value as ExampleName);
                  event.currentTarget.value = '';
                }}
              >
                <option value="">choose…</option>
                {titles.map(([name, title]) => (
                  <option key={name} value={name}>
                    {title}
                  </option>
                ))}
              </select>
            </label>
          </div>
        )}
      </div>
      {isEmpty && (
        <div class="first">
          <h3>Or look at an example</h3>
          <ul>
            {titles.map(([name, title]) => (
              <li key={name}>
                <button type="button" onClick={() => onExample(name)}>
                  {title}
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
      {notes.map(
        (note) =>
          note !== undefined &&
          note !== '' && (
            <p class="note" key={note}>
              {note}
            </p>
          ),
      )}
    </section>
  );
}
