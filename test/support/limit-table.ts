/** Each member: a limit, an argument that keeps to it, one that does not, one of another type; and the same of an operator. */
const MEMBERS = [
  { policy: { max_cost_usd: 5 }, argument: 'estimated_cost_usd', member: 'cost_usd', values: [5, 6, '5'] },
  {
    policy: { max_total_cost_usd: 5 },
    argument: 'estimated_cost_usd',
    member: 'cost_usd',
    values: [5, 6, '5'],
  },
  { policy: { write_access: false }, argument: 'write_access', member: 'writes', values: [false, true, 0] },
  { policy: { pii_access: false }, argument: 'pii_access', member: 'pii', values: [false, true, 'no'] },
  {
    policy: { allowed_resources: ['file:///data/*'] },
    argument: 'resource_uri',
    member: 'resource',
    values: ['file:///data/a', 'file:///etc/passwd', 7],
  },
  {
    policy: { allowed_data_classes: ['public'] },
    argument: 'data_class',
    member: 'data_class',
    values: ['public', 'secret', 7],
  },
] as const;

/** A call under a limit, and by whose word it breaks it. */
export interface LimitRow {
  readonly name: string;
  readonly policy: object;
  readonly args: Readonly<Record<string, unknown>>;
  /** What the operator says of the tool, besides its name; `null` for nothing. */
  readonly line: Readonly<Record<string, unknown>> | null;
  readonly by: 'call' | 'tool' | 'nobody' | null;
}

/** Members × how a call states what they limit × what the operator says of it. */
export const LIMIT_ROWS: readonly LimitRow[] = MEMBERS.flatMap(({ policy, argument, member, values }) => {
  const [good, bad, odd] = values;
  const stated = [
    ['is not stated', {}],
    ['is stated as it may be', { [argument]: good }],
    ['is stated as it may not', { [argument]: bad }],
    ['is of another type', { [argument]: odd }],
  ] as const;
  /** With whether what is said may be; `undefined`: nothing is said. */
  const told = [
    ['nothing', null, {}, undefined],
    ['a constant that may be', { [member]: good }, {}, true],
    ['a constant that may not', { [member]: bad }, {}, false],
    ['an argument that may be', { [member]: { argument: 'own' } }, { own: good }, true],
    ['an argument that may not', { [member]: { argument: 'own' } }, { own: bad }, false],
    ['an argument of another type', { [member]: { argument: 'own' } }, { own: odd }, false],
    ['an argument that is missing', { [member]: { argument: 'own' } }, {}, false],
    ['a pointer', { [member]: { argument: '/a~1b/1/~0' } }, { 'a/b': [0, { '~': good }] }, true],
    ['a pointer that leads nowhere', { [member]: { argument: '/own/length' } }, { own: [good] }, false],
    ['all of an array', { [member]: { argument: 'own' } }, { own: [good, bad] }, false],
  ] as const;
  return stated.flatMap(([how, given]) =>
    told.map(([what, line, more, isTold]): LimitRow => {
      const isStated = argument in given;
      const isWrong = isStated && given[argument as keyof typeof given] !== good;
      const unsaid = isStated ? null : 'nobody';
      const by = isWrong ? 'call' : isTold === undefined ? unsaid : isTold ? null : 'tool';
      const name = `${JSON.stringify(policy)}: it ${how}, the operator says ${what}`;
      return { name, policy, args: { ...more, ...given }, line, by };
    }),
  );
});
