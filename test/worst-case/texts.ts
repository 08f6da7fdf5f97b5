import { Raw, request, signedRequest, unsignedJwt } from './attacker.js';
import { valueNames, values } from './claims.js';
import { family, fit, list, members, type Family } from './family.js';

/** JSON of every shape in `body`, to measure the comparison and, for some shapes, the strict check. */
const body = family(
  'text: the body member',
  {
    value: valueNames,
    space: ['none', 'one', 'much'],
    extra: ['nothing', 'a big integer', 'an escape', 'a duplicate', 'another duplicate'],
    signed: ['valid', 'no'],
  },
  ({ value, space, extra, signed }, budget) =>
    fit(budget, (size) => {
      const more = {
        nothing: '',
        'a big integer': ',"n":9007199254740993',
        'an escape': ',"\\u006e":1',
        'a duplicate': ',"v":1',
        // The value stays, so that all of it is looked at.
        'another duplicate': ',"w":1,"w":2',
      };
      const gap = { none: '', one: ' ', much: ' '.repeat(size) }[space];
      const text = `{"v":${gap}${values[value](space === 'much' ? size / 10 : size)}${more[extra]}}`;
      return signed === 'valid' ? signedRequest({ body: text }) : request({ body: text });
    }),
);

/** Names that occur twice, in texts for which the quick check cannot decide. */
const duplicates = family(
  'text: duplicate names',
  {
    where: ['payload', 'body', 'bundle', 'nested'],
    name: ['distinct', 'same', 'long', 'escaped', 'integers'],
    value: ['1', '""', '[]', '9007199254740993'],
    twice: ['last', 'never'],
  },
  ({ where, name, value, twice }, budget) =>
    fit(budget, (count) => {
      const of = (index: number) =>
        ({
          distinct: `n${index}`,
          same: 'n',
          long: `${'n'.repeat(60)}${index}`,
          escaped: `\\u006e${index}`,
          integers: `${index}`,
        })[name];
      const object = members(
        count,
        (index) => `"${of(index === count - 1 && twice === 'last' ? index - 1 : index)}":${value}`,
      );
      switch (where) {
        case 'payload':
          return signedRequest({ receipt: () => ({ extra: new Raw(object) }) });
        case 'body':
          return signedRequest({ body: object });
        case 'nested':
          return signedRequest({ body: `${'[{"a":'.repeat(20)}${object}${'}]'.repeat(20)}` });
        case 'bundle':
          return `${request({}).slice(0, -1)},${object.slice(1)}`;
      }
    }),
);

/** Strings whose characters are written as escapes. */
const escapes = family(
  'text: escapes',
  {
    unit: ['\\u0061', '\\"', '\\\\', '\\n', '\\u00e9', '\\ud83d\\ude00', '\\ud800', '\\/'],
    where: ['payload', 'body', 'bundle', 'invocation', 'name in body', 'name in payload'],
    pieces: [1, 1000, 50_000],
  },
  ({ unit, where, pieces }, budget) =>
    fit(budget, (size) => {
      const piece = unit.repeat(Math.max(1, size / unit.length / pieces));
      const texts = `[${list(pieces, () => `"${piece}"`).join(',')}]`;
      const named = members(pieces, (index) => `"${piece}${index}":0`);
      switch (where) {
        case 'payload':
          return signedRequest({ receipt: () => ({ extra: new Raw(texts) }) });
        case 'name in payload':
          return signedRequest({ receipt: () => ({ extra: new Raw(named) }) });
        case 'body':
          return signedRequest({ body: texts });
        case 'name in body':
          return signedRequest({ body: named });
        case 'invocation':
          return request({ invocation: `"${piece.repeat(pieces)}"` });
        case 'bundle':
          return request({ version: `"${piece.repeat(pieces)}"` });
      }
    }),
);

/** Numbers that a double cannot hold exactly. */
const numbers = family(
  'text: numbers',
  {
    unit: [
      '9007199254740993',
      '9007199254740992',
      '1e400',
      '1E30',
      '1e-400',
      '0.1e17',
      '123456789012345678901234567890',
      '1.7976931348623157e308',
      '4.9406564584124654e-324',
      'digits',
      'zeros',
      'fraction',
      'exponent',
    ],
    count: ['all', 1, 16, 1000],
    where: ['payload', 'body', 'args'],
  },
  ({ unit, count, where }, budget) =>
    fit(budget, (size) => {
      const many = count === 'all' ? Math.ceil(size / 20) : count;
      const length = Math.max(1, Math.floor(size / many));
      const odd: Readonly<Record<string, string>> = {
        digits: `1${'7'.repeat(length)}`,
        zeros: `1${'0'.repeat(Math.min(length, 300))}.${'0'.repeat(length)}`,
        fraction: `0.${'0'.repeat(length)}1`,
        exponent: `1e-${'9'.repeat(length)}`,
      };
      const text = `[${list(many, () => odd[unit] ?? unit).join(',')}]`;
      if (where === 'payload') return signedRequest({ receipt: () => ({ extra: new Raw(text) }) });
      if (where === 'args') return signedRequest({ invocation: { args: { n: new Raw(text) } } });
      return signedRequest({ body: text });
    }),
);

/** Arrays and objects that are nested as deep as the body's length allows. */
const nesting = family(
  'text: nesting',
  {
    open: ['[', '{"a":', '[[],', '{"a":1,"b":', '[{"a":'],
    where: ['body', 'receipts', 'invocation', 'payload', 'args', 'header', 'document', 'version'],
    closed: ['yes', 'no'],
  },
  ({ open, where, closed }, budget) =>
    fit(budget, (count) => {
      const ends = (open.match(/[[{]/g) ?? []).reverse();
      const end = (open === '[[],' ? ['['] : ends)
        .map((character) => (character === '[' ? ']' : '}'))
        .join('');
      const text = open.repeat(count) + '1' + (closed === 'yes' ? end.repeat(count) : '');
      switch (where) {
        case 'body':
          return signedRequest({ body: text });
        case 'receipts':
          return request({ receipts: text });
        case 'invocation':
          return request({ invocation: text });
        case 'version':
          return request({ version: text });
        case 'payload':
          return request({ receipts: JSON.stringify([unsignedJwt(`{"a":${text}}`)]) });
        case 'header':
          return request({ receipts: JSON.stringify([unsignedJwt('{}', `{"a":${text}}`)]) });
        case 'args':
          return signedRequest({ invocation: { args: new Raw(`{"a":${text}}`) } });
        case 'document':
          return text;
      }
    }),
);

/** Many receipts, or other values in their place. */
const receipts = family(
  'text: the receipts array',
  {
    entry: ['""', '"a.b.c"', '1', 'null', '[]', '{}', '{"a":1}', '"long"', 'distinct objects'],
    last: ['same', 'a number'],
  },
  ({ entry, last }, budget) =>
    fit(budget, (count) => {
      const at = (index: number) =>
        entry === 'distinct objects'
          ? `{"k${index}":1}`
          : entry === '"long"'
            ? `"${'x'.repeat(1000)}"`
            : entry;
      const items = list(count, (index) => (last === 'a number' && index === count - 1 ? '1' : at(index)));
      return request({ receipts: `[${items.join(',')}]` });
    }),
);

/** JWTs whose form is wrong. */
const jwt = family(
  'text: JWTs of a wrong form',
  {
    form: [
      'dots',
      'no dot',
      'junk payload',
      'junk header',
      'junk signature',
      'plus',
      'not UTF-8',
      'not ASCII',
      'padding',
    ],
    where: ['receipt', 'invocation', 'sixteen receipts'],
  },
  ({ form, where }, budget) =>
    fit(budget, (size) => {
      const text = {
        dots: '.'.repeat(size),
        'no dot': 'a'.repeat(size),
        'junk payload': `e30.${'!'.repeat(size)}.AA`,
        'junk header': `${'*'.repeat(size)}.e30.AA`,
        'junk signature': `e30.e30.${'-_*'.repeat(size / 3)}`,
        plus: `e30.${'+/'.repeat(size / 2)}.AA`,
        'not UTF-8': `e30.${'____'.repeat(size / 4)}.AA`,
        'not ASCII': `e30.${'ŁŁŁŁ'.repeat(size / 8)}.AA`,
        padding: `e30.${'='.repeat(size)}.AA`,
      }[form];
      const quoted = JSON.stringify(text);
      if (where === 'receipt') return request({ receipts: `[${quoted}]` });
      if (where === 'sixteen receipts') return request({ receipts: `[${list(16, () => quoted).join(',')}]` });
      return signedRequest({}).replace(/"invocation":"[^"]*"/, () => `"invocation":${quoted}`);
    }),
);

/** Large headers that are JSON. */
const header = family(
  'text: JWT headers',
  { value: valueNames, name: ['alg', 'x', 'crit'] },
  ({ value, name }, budget) =>
    fit(budget, (size) => {
      const text = `{"${name}":${values[value](size)}}`;
      return request({ receipts: JSON.stringify([unsignedJwt('{}', text)]) });
    }),
);

/** Documents that are not bundles. */
const documents = family(
  'text: documents that are no bundle',
  { value: valueNames, end: ['', ' ', 'x'], place: ['all', 'a member', 'receipts', 'invocation', 'version'] },
  ({ value, end, place }, budget) =>
    fit(budget, (size) => {
      const text = values[value](size) + end;
      switch (place) {
        case 'all':
          return text;
        case 'a member':
          return `${request({}).slice(0, -1)},"more":${text}}`;
        case 'receipts':
          return request({ receipts: text });
        case 'invocation':
          return request({ invocation: text });
        case 'version':
          return request({ version: text });
      }
    }),
);

/** Texts: JSON, base64url and JWTs that are hard to read. */
export const textFamilies: readonly Family[] = [
  body,
  duplicates,
  escapes,
  numbers,
  nesting,
  receipts,
  jwt,
  header,
  documents,
];
