import { codePointsOf, piecesOf } from './marks.js';

/** A text in which nothing hides: what is not what it looks like is marked, with its code points. */
export function Marked({ text }: { readonly text: string }) {
  return (
    <>
      {piecesOf(text).map(({ text: part, kind }, at) => {
        switch (kind) {
          case 'plain':
            return part;
          case 'rtl':
            return <bdi key={at}>{part}</bdi>;
          case 'line':
            return (
              <span class="line" key={at}>
                {part === '\n' ? '↵\n' : '⇥\t'}
              </span>
            );
          case 'hidden':
          case 'like':
            return (
              <mark key={at}>
                {kind === 'like' && part}
                <small>{codePointsOf(part)}</small>
              </mark>
            );
        }
      })}
    </>
  );
}
