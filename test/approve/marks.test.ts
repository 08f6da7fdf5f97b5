import { expect, it } from 'vitest';
import { codePointsOf, piecesOf } from '../../web/shared/marks.js';

const marked = (text: string) =>
  piecesOf(text).flatMap(({ text: part, kind }) =>
    kind === 'hidden' || kind === 'like' ? `${kind} ${codePointsOf(part)}` : [],
  );

it.each([
  ['pay\u202egpj.exe', ['hidden U+202E']],
  ['\u2066a\u2069', ['hidden U+2066', 'hidden U+2069']],
  ['bank\u200b\u200b\u200b.example', ['hidden U+200B ×3']],
  ['a\u00adb\ufeffc\u{e0041}', ['hidden U+00AD', 'hidden U+FEFF', 'hidden U+E0041']],
  ['a\u00a0b\u3000c\u2800d\u3164e', ['hidden U+00A0', 'hidden U+3000', 'hidden U+2800', 'hidden U+3164']],
  ['a\r\u0000\u001b[2J', ['hidden U+000D U+0000 U+001B']],
  ['a\u034fb\ufe0fc', ['hidden U+034F', 'hidden U+FE0F']],
  ['\ue000', ['hidden U+E000']],
  ['50\u033600', ['hidden U+0336']],
])('marks what nobody sees: %j', (text, expected) => {
  expect(marked(text)).toEqual(expected);
});

it.each([
  ['pаypal', ['like U+0430']],
  ['аррӏе', ['like U+0430 U+0440 ×2 U+04CF U+0435']],
  ['ΑΒΕ', ['like U+0391 U+0392 U+0395']],
  ['1ОО', ['like U+041E ×2']],
  ['З00', ['like U+0417']],
  ['৪00', ['like U+09EA']],
  ['１００', ['like U+FF11 U+FF10 ×2']],
  ['𝐁ob', ['like U+1D401']],
  ['ᏀᏞ', ['like U+13C0 U+13DE']],
  ['https://bank.example∕evil', ['like U+2215']],
  ['gסogle', ['like U+05E1']],
  ['l\u0338', ['like U+0338']],
])('marks what looks like something else: %j', (text, expected) => {
  expect(marked(text)).toEqual(expected);
});

it.each([
  'Überweisung für José, naïve café, 50 €, “ok” – 1/2 … №',
  'Привет, я у тебя с другом',
  'שלום עולם, 100 שקל',
  'السلام عليكم',
  '東京タワーへ行く、iPhoneで。한국어 UTF-8',
  'नमस्ते ภาษาไทย',
  '👩‍💻 ❤️ 🇩🇪 5️⃣',
  '5µm',
  'line\nand\ttab',
  'e\u0301',
])('leaves what people write: %s', (text) => {
  expect(marked(text)).toEqual([]);
  expect(
    piecesOf(text)
      .map((piece) => piece.text)
      .join(''),
  ).toBe(text);
});

it('keeps words that are read from right to left together, and apart from the rest', () => {
  expect(piecesOf('pay שלום עולם 100 to')).toEqual([
    { text: 'pay ', kind: 'plain' },
    { text: 'שלום עולם', kind: 'rtl' },
    { text: ' 100 to', kind: 'plain' },
  ]);
});
