/** Controls, format characters (which can reverse or hide text), lone surrogates, line and paragraph separators. */
export const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** JSON text that cannot control a terminal, but has line breaks where it is indented. It still parses to the same value. */
export function withoutControls(json: string): string {
  const escape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return json.replace(UNPRINTABLE, (character) =>
    character === '\n' ? character : character.split('').map(escape).join(''),
  );
}
