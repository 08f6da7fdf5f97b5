import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Mark } from './cause.js';

interface EditorProps {
  readonly label: string;
  readonly value: string;
  /** Where a text has the cause. */
  readonly marksIn?: (text: string) => readonly Mark[];
  /** What gives each part of a text its colour. */
  readonly colours?: 'json' | 'jwt' | 'none';
  readonly rows?: number;
  readonly placeholder?: string;
  readonly describedBy?: string;
  /** May return true if the text was taken to another place: then this one shows its value again. */
  readonly onEdit: (text: string) => unknown;
}

/** Longer texts have no colours: a page must stay quick. */
const MAX_COLOURED = 60_000;

const noMarks = () => [];

/** Whether a text area is as high as its text by its style alone. */
const GROWS_BY_ITSELF = CSS.supports('field-sizing', 'content');

/** A text area over the same text in colours, in which causes are marked. */
export function Editor({
  label,
  value,
  marksIn = noMarks,
  colours = 'none',
  rows,
  placeholder,
  describedBy,
  onEdit,
}: EditorProps) {
  // What is being typed, until the reader leaves: the value follows later, and may be written in another way.
  const [draft, setDraft] = useState<string | null>(null);
  const shown = draft ?? value;
  const marks = marksIn(shown);
  const area = useRef<HTMLTextAreaElement>(null);
  const behind = useRef<HTMLPreElement>(null);
  const places = marks.map(({ start, end }) => `${start}-${end}`).join();
  const start = marks[0]?.start ?? null;
  // Each of these asks for the layout of the page: only where something has changed.
  useLayoutEffect(() => {
    const [front, back] = [area.current, behind.current];
    if (front === null || back === null) return;
    if (rows === undefined && !GROWS_BY_ITSELF) {
      front.style.height = 'auto';
      front.style.height = `${front.scrollHeight + 2}px`;
    }
    // A mark that is new is shown, unless somebody is writing here.
    const mark = start === null || document.activeElement === front ? null : back.querySelector('mark');
    if (mark !== null) front.scrollTop = Math.max(0, mark.offsetTop - front.clientHeight / 3);
    back.scrollTop = front.scrollTop;
  }, [shown, start]);
  const isColoured = shown.length <= MAX_COLOURED;
  const painted = useMemo(
    () => (isColoured ? paint(shown, marks, colours) : null),
    // The marks by their places: the array is another one each time.
    [shown, colours, places],
  );
  return (
    <div class={isColoured ? 'editor' : 'editor plain'}>
      {isColoured && (
        <pre ref={behind} aria-hidden="true">
          {painted}
          {'\n'}
        </pre>
      )}
      <textarea
        ref={area}
        aria-label={label}
        aria-invalid={marks.length > 0}
        aria-describedby={describedBy}
        value={shown}
        class={rows === undefined ? 'grows' : ''}
        rows={rows ?? 3}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        onInput={(event) => {
          const text = event.currentTarget.value;
          setDraft(onEdit(text) === true ? null : text);
        }}
        onBlur={() => setDraft(null)}
        onScroll={(event) => {
          if (behind.current !== null) behind.current.scrollTop = event.currentTarget.scrollTop;
        }}
      />
    </div>
  );
}

interface Piece extends Mark {
  readonly name: string;
}

function paint(text: string, marks: readonly Mark[], colours: 'json' | 'jwt' | 'none'): ComponentChildren[] {
  const pieces = colours === 'json' ? jsonPieces(text) : colours === 'jwt' ? jwtPieces(text) : [];
  const edges = new Set([0, text.length]);
  for (const { start, end } of [...pieces, ...marks]) edges.add(start).add(end);
  const sorted = [...edges].filter((at) => at >= 0 && at <= text.length).sort((left, right) => left - right);
  let next = 0;
  return sorted.slice(0, -1).map((start, at) => {
    const part = text.slice(start, sorted[at + 1]);
    while ((pieces[next]?.end ?? Infinity) <= start) next++;
    const piece = pieces[next];
    const name = piece !== undefined && piece.start <= start ? piece.name : '';
    const isMarked = marks.some((mark) => mark.start <= start && start < mark.end);
    return isMarked ? (
      marked(part, name, start)
    ) : name === '' ? (
      part
    ) : (
      <span key={start} class={name}>
        {part}
      </span>
    );
  });
}

/** Indentation is no part of a cause. */
function marked(text: string, name: string, start: number): ComponentChildren {
  return text.split(/(\n\s*)/).map((part, at) =>
    part.trim() === '' ? (
      part
    ) : (
      <mark key={`${start} ${at}`} class={name}>
        {part}
      </mark>
    ),
  );
}

function jsonPieces(text: string): Piece[] {
  // A string without an end counts too: to look for the end of each again would take time in the square of the length.
  const token = /("(?:[^"\\\n]|\\.)*"?)(\s*:)?|-?\d[\d.eE+-]*|\b(?:true|false|null)\b/g;
  return [...text.matchAll(token)].map((found) => {
    const [whole, quoted, colon] = found;
    const end = found.index + (quoted ?? whole).length;
    const name = quoted === undefined ? 'literal' : colon === undefined ? 'string' : 'name';
    return { start: found.index, end, name };
  });
}

function jwtPieces(text: string): Piece[] {
  let start = 0;
  return text.split('.', 3).map((segment, at) => {
    const piece = { start, end: start + segment.length, name: `segment-${at}` };
    start += segment.length + 1;
    return piece;
  });
}
