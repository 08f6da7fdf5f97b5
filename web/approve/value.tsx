import { useState } from 'preact/hooks';
import type { JsonValue } from '../../src/protocol/json.js';
import { Marked } from '../shared/marked.js';
import { MAX_SHOWN } from './statement.js';

const NUMBER = /^-?\d+(\.\d+)?(e[+-]\d+)?$/;

/** A value, verbatim. What is long is folded, with its size. */
export function Value({ value }: { readonly value: JsonValue }) {
  const [isOpen, setOpen] = useState(false);
  if (typeof value === 'number') return <Amount text={String(value)} />;
  if (value === null || typeof value === 'boolean') return <code>{String(value)}</code>;
  if (typeof value === 'string') {
    // Not in the middle of a character.
    const start = value.slice(0, MAX_SHOWN.characters).replace(/[\ud800-\udbff]$/, '');
    const shown = isOpen ? value : start;
    return (
      <span class="text">
        <q class={shown === value ? '' : 'cut'}>
          {NUMBER.test(shown) ? <Amount text={shown} /> : <Marked text={shown} />}
        </q>
        {shown !== value && (
          <Unfold what={`${count(value.length - shown.length)} more characters`} onOpen={setOpen} />
        )}
      </span>
    );
  }
  const items = Object.entries(value);
  const shown = isOpen ? items : items.slice(0, MAX_SHOWN.items);
  const isList = Array.isArray(value);
  return (
    <div class={isList ? 'members list' : 'members'}>
      {items.length === 0 && <p class="note">{isList ? 'an empty list' : 'empty'}</p>}
      <ul>
        {shown.map(([name, item]) => (
          <li key={name}>
            <span class="key">{isList ? Number(name) + 1 : <Marked text={name} />}</span>
            <Value value={item} />
          </li>
        ))}
      </ul>
      {shown.length < items.length && (
        <Unfold
          what={`${count(items.length - shown.length)} more of ${count(items.length)}`}
          onOpen={setOpen}
        />
      )}
    </div>
  );
}

const count = (number: number) => number.toLocaleString('en');

interface UnfoldProps {
  readonly what: string;
  readonly onOpen: (isOpen: boolean) => void;
}

function Unfold({ what, onOpen }: UnfoldProps) {
  return (
    <button type="button" class="unfold" onClick={() => onOpen(true)}>
      Show {what}
    </button>
  );
}

/** A number, whose thousands stand apart for the eye only: who copies it gets it verbatim. */
export function Amount({ text }: { readonly text: string }) {
  const [whole = ''] = /^-?\d+/.exec(text) ?? [];
  return (
    <b class="amount">
      {whole.split(/\B(?=(?:\d{3})+$)/).map((digits, at) => (
        <span key={at}>{digits}</span>
      ))}
      {text.slice(whole.length)}
    </b>
  );
}
