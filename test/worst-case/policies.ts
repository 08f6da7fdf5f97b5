import { Raw, signedRequest } from './attacker.js';
import { family, fit, list, members, type Family } from './family.js';

// Numbers of entries. A list in a policy may have 4,096; longer lists only cost their refusal.
const ENTRIES = [4096, 'all', 16, 256, 1024, 4097] as const;
const LISTS = ['allowed_resources', 'allowed_tools', 'allowed_data_classes'] as const;
const DEPTHS = [2, 1, 4, 16] as const;

/**
 * Makes an entry of about `length` characters. The kind says whether entries differ at the end, at the start or not.
 */
function entry(kind: 'late' | 'early' | 'same', index: number, length: number, end: string): string {
  const filling = 'x'.repeat(Math.max(0, length - 8));
  const digits = index.toString(36).padStart(6, '0');
  if (kind === 'same') return `${filling}${end}`;
  return kind === 'late' ? `${filling}${digits}${end}` : `${digits}${filling}${end}`;
}

/** Fills a body with lists: with more entries if `entries` is `all`, otherwise with longer ones. */
function fill(
  budget: number,
  entries: number | 'all',
  length: number,
  build: (count: number, length: number) => string,
): string {
  if (entries === 'all') return fit(budget, (count) => build(count, length));
  return fit(budget, (size) => build(entries, size), budget);
}

/** Parent and child each have a list, and one must be a subset of the other. */
const subset = family(
  'policy: a list in every level',
  {
    member: LISTS,
    entries: ENTRIES,
    length: [8, 2, 64, 512],
    kind: ['late', 'early', 'same'],
    end: ['', '/*', '/..', '/%2e%2e'],
    parentEnd: ['/*', ''],
    order: ['reversed', 'equal', 'shifted'],
    depth: DEPTHS,
  },
  ({ member, entries, length, kind, end, parentEnd, order, depth }, budget) =>
    fill(budget, entries, length, (count, size) =>
      signedRequest({
        depth,
        receipt: (level) => {
          const at = (index: number) =>
            order === 'reversed' && level % 2 === 1
              ? count - 1 - index
              : order === 'shifted'
                ? index + level
                : index;
          const ending = level === 0 ? parentEnd : end;
          return { policy: { [member]: list(count, (index) => entry(kind, at(index), size, ending)) } };
        },
        invocation: { args: { tool: 'search' } },
      }),
    ),
);

/** An argument that every level looks for in its list. */
const lookup = family(
  'policy: an argument against long lists',
  {
    member: LISTS,
    entries: ENTRIES,
    length: [8, 2, 64, 512],
    kind: ['same', 'late', 'early'],
    end: ['/*', '', '/'],
    depth: [1, 2, 4, 16],
    argument: ['long', 'short', 'number', 'list'],
  },
  ({ member, entries, length, kind, end, depth, argument }, budget) =>
    fill(budget, entries, length, (count, size) => {
      const entries = list(count, (index) => entry(kind, index, size, end));
      const last = entry(kind, count - 1, size, '');
      const value = { long: `${last}/a/b/..`, short: last, number: 1, list: [last] }[argument];
      return signedRequest({
        depth,
        receipt: () => ({ policy: { [member]: entries } }),
        invocation: { args: { tool: value, data_class: value, resource_uri: value } },
      });
    }),
);

/** A long resource with much to decode, against entries that are prefixes of it. */
const resource = family(
  'policy: a long resource',
  {
    entries: [4096, 'all', 1, 16, 1024],
    unit: ['%2e%2e/', '%2e%2e%2e/', 'a', '/', '%2E', '%2f', '..x/', '%252e', '\\', '\t', '?', 'é', '../'],
    prefix: ['x/', 'file:///', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/'],
    share: [0.5, 0.9, 0.1, 0.99],
    depth: [1, 2, 16],
    where: ['argument', 'child entry'],
  },
  ({ entries, unit, prefix, share, depth, where }, budget) =>
    fit(budget, (size) => {
      const bytes = size * (1 - share);
      const count = entries === 'all' ? Math.ceil(bytes / (prefix.length + 4)) : entries;
      const uri = prefix + unit.repeat(Math.max(1, Math.floor((size * share) / unit.length)));
      const allowed = Array<string>(count).fill(`${prefix}*`);
      return signedRequest({
        depth: where === 'argument' ? depth : depth + 1,
        receipt: (level) => ({
          policy: { allowed_resources: level === depth && where === 'child entry' ? [uri] : allowed },
        }),
        invocation: { args: { tool: 'search', resource_uri: uri } },
      });
    }),
);

const shapes = {
  empty: () => '[]',
  object: (index: number) => `{"k${index}":1}`,
  text: (index: number) => `"v${index}"`,
  number: () => '1',
  'long number': () => '1.7976931348623157e308',
  nested: () => `${'['.repeat(40)}${']'.repeat(40)}`,
} as const;

const names = {
  short: (index: number) => index.toString(36),
  long: (index: number) => `${'n'.repeat(40)}${index}`,
  integer: (index: number) => String(index * 7919),
  namespaced: (index: number) => `acme.example:${index}`,
  same: () => 'n',
  escaped: (index: number) => `\\u0061${index}`,
} as const;

/** Unknown members, each of which a child must repeat unchanged. */
const unknown = family(
  'policy: unknown members',
  {
    name: Object.keys(names) as (keyof typeof names)[],
    shape: Object.keys(shapes) as (keyof typeof shapes)[],
    depth: DEPTHS,
    order: ['equal', 'reversed', 'last differs'],
    // A receipt may have 512 long numbers; with more it is refused before anything is compared.
    part: [1, 0.24],
  },
  ({ name, shape, depth, order, part }, budget) =>
    fit(budget * part, (count) =>
      signedRequest({
        depth,
        receipt: (level) => {
          const at = (index: number) => (order === 'reversed' && level % 2 === 1 ? count - 1 - index : index);
          const value = (index: number) =>
            order === 'last differs' && level === 1 && index === count - 1
              ? 'false'
              : shapes[shape](at(index));
          return {
            policy: new Raw(members(count, (index) => `"${names[name](at(index))}":${value(index)}`)),
          };
        },
        invocation: { args: { tool: 'search' } },
      }),
    ),
);

/** One unknown member whose value is deep, wide or both. */
const nested = family(
  'policy: one unknown member, nested',
  {
    open: ['{"a":', '[', '[[],', '{"a":1,"b":'],
    levels: [50, 2, 10, 60, 70, 'all'],
    depth: DEPTHS,
    differs: ['no', 'yes'],
  },
  ({ open, levels, depth, differs }, budget) =>
    fit(budget, (count) => {
      const deep = levels === 'all' ? count : levels;
      const close = open.startsWith('{') ? '}' : ']';
      const one = (leaf: string) => `${open.repeat(deep)}${leaf}${close.repeat(deep)}`;
      const many = levels === 'all' ? 1 : count;
      return signedRequest({
        depth,
        receipt: (level) => {
          const last = one(differs === 'yes' && level > 0 ? '2' : '1');
          return {
            policy: new Raw(`{"x:y":[${list(many, (at) => (at === many - 1 ? last : one('1'))).join(',')}]}`),
          };
        },
        invocation: { args: { tool: 'search' } },
      });
    }),
);

/** Policies, lists and values for which a check may loop over two of them. */
export const policyFamilies: readonly Family[] = [subset, lookup, resource, unknown, nested];
