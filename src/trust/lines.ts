import { visit } from 'jsonc-parser';

type Path = readonly (string | number)[];

/** The line of an offset in a text, counted from 1. */
export function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at >= 0 && at < offset; at = text.indexOf('\n', at + 1)) line++;
  return line;
}

/** The line of the first error in a text that is not JSON; `null` if it cannot be told. */
export function lineOfSyntaxError(text: string): number | null {
  let line: number | null = null;
  visit(
    text,
    {
      onError: (_error, _offset, _length, startLine) => {
        line ??= startLine + 1;
      },
    },
    { disallowComments: true },
  );
  return line;
}

/**
 * The lines of values in a JSON text, or of the innermost object or array that is there. One pass that keeps nothing of
 * the text, since it may be large, and skips what is not on the way to one of them.
 */
export function findLines(text: string, paths: readonly Path[]): number[] {
  const wanted = new Set(paths.flatMap((path) => path.map((_, at) => keyOf(path.slice(0, at + 1)))));
  const lines = new Map<string, number>([[keyOf([]), 1]]);
  /** Whether something in this value is looked for. */
  const note = (line: number, path: Path): boolean => {
    const key = keyOf(path);
    if (!wanted.has(key)) return path.length === 0;
    lines.set(key, line + 1);
    return true;
  };
  visit(text, {
    onObjectBegin: (_offset, _length, line, _character, pathOf) => note(line, pathOf()),
    onArrayBegin: (_offset, _length, line, _character, pathOf) => note(line, pathOf()),
    // Without these, the parser does not see where what is skipped ends.
    onObjectEnd: () => undefined,
    onArrayEnd: () => undefined,
    onLiteralValue: (_value, _offset, _length, line, _character, pathOf) => void note(line, pathOf()),
  });
  const lineOf = (path: Path): number => lines.get(keyOf(path)) ?? lineOf(path.slice(0, -1));
  return paths.map(lineOf);
}

function keyOf(path: Path): string {
  return JSON.stringify(path);
}
