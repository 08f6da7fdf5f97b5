/** A part of a text, and what is odd about it. */
export interface Piece {
  text: string;
  /** `hidden`: nobody sees it, or it turns the direction. `like`: it looks like something else. `rtl`: right to left. */
  readonly kind: 'plain' | 'line' | 'hidden' | 'like' | 'rtl';
}

// Emojis are sequences of which parts are hidden: only those that Unicode recommends.
const EMOJI = String.raw`\p{RGI_Emoji}`;
const HIDDEN = String.raw`[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}`;
const WORD = String.raw`[[\p{L}\p{M}\p{N}]--\p{Default_Ignorable_Code_Point}]`;
const RTL = String.raw`[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]`;
// As in https://bank.example∕evil.example
const PUNCTUATION = String.raw`(?<=[A-Za-z0-9])[\u2024\u2044\u2215\u2236\u29f8\u3002\ufe55\uff0e\uff0f\uff1a\uff20](?=[A-Za-z0-9])`;
const PARTS = new RegExp(
  String.raw`(?<line>[\n\t])|(?<emoji>${EMOJI})|(?<hidden>${HIDDEN})|(?<like>${PUNCTUATION})|` +
    String.raw`(?<rtl>(?<!${WORD})${RTL}+(?:[ ,.]+${RTL}+)*(?!${WORD}))|(?<word>${WORD}+)`,
  'gv',
);

/** Letters that are not Latin, and look as if they were, or like digits. */
const LIKE_LATIN =
  /[асԁеһіјӏорԛѕухԝѵүзбАВЕЗКМНОРСТУХІЈЅԚԜҮѴӀαινορυχϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսհոցյՕՍ\p{Script=Cherokee}\p{Script=Lisu}\p{Script=Coptic}]/u;
const LATIN = /\p{Script=Latin}/u;
/** In words with Latin letters these are usual; Common: µ. */
const BESIDE_LATIN =
  /[\p{Script=Common}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u;

/**
 * Finds what a text hides from who reads it: characters that nobody sees, that turn the direction of what follows, and
 * letters and digits that look like others (by Unicode's UTS 39, without its tables: words of several scripts, and words of which each letter
 * looks like a Latin one).
 */
export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  const add = (part: string, kind: Piece['kind']) => {
    const last = pieces.at(-1);
    if (last?.kind === kind && kind !== 'line') last.text += part;
    else if (part !== '') pieces.push({ text: part, kind });
  };
  let at = 0;
  for (const { 0: part, index, groups = {} } of text.matchAll(PARTS)) {
    add(text.slice(at, index), 'plain');
    at = index + part.length;
    const kind = (['line', 'hidden', 'like', 'rtl'] as const).find((name) => groups[name] !== undefined);
    if (groups['word'] === undefined) add(part, kind ?? 'plain');
    else addWord(part, add);
  }
  add(text.slice(at), 'plain');
  return pieces;
}

function addWord(word: string, add: (part: string, kind: Piece['kind']) => void): void {
  const characters = word.match(/./gu) ?? [];
  const letters = characters.filter((character) => /\p{L}/u.test(character));
  const isOther = (letter: string) => !LATIN.test(letter) && !BESIDE_LATIN.test(letter);
  const isMixed = letters.some((letter) => LATIN.test(letter)) && letters.some(isOther);
  // Alone, such a letter is a word of several languages.
  const isDisguised = characters.length > 1 && letters.every((letter) => LIKE_LATIN.test(letter));
  let before = '';
  for (const character of characters) {
    const isLetter = /\p{L}/u.test(character);
    // A mark that stands on no letter strikes a digit through, or encloses it.
    const isStray = /\p{M}/u.test(character) && !/[\p{L}\p{M}]/u.test(before);
    const isLike =
      (isLetter && (isDisguised || (isMixed && isOther(character)))) ||
      /(?![0-9])\p{Nd}|[ɑɡɩɪ\u0334-\u0338]/u.test(character) ||
      (!/[A-Za-z0-9]/.test(character) && /^[A-Za-z0-9]$/.test(character.normalize('NFKC')));
    add(character, isStray ? 'hidden' : isLike ? 'like' : 'plain');
    before = character;
  }
}

/** Names characters, each run once. */
export function codePointsOf(text: string): string {
  return [...text.matchAll(/(.)\1*/gsu)]
    .map(({ 0: run, 1: character = '' }) => {
      const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
      const times = run.length / character.length;
      return `U+${code}${times === 1 ? '' : ` ×${times}`}`;
    })
    .join(' ');
}
