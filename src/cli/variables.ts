import { variableOf } from '../service/configuration/environment.js';
import { plain } from '../protocol/options.js';
import { SECTIONS, type Variable } from '../service/configuration/variables.js';

/** What the documents say of a variable, in Markdown. */
export interface Described {
  readonly name: string;
  /** The default in code format is what one would set; one in words depends on the machine or another variable. */
  readonly default: string;
  readonly values: string;
  readonly says: string;
}

/**
 * Describes the variables, by the headings of docs/configuration.md.
 *
 * @param isWanted which of them; default: all
 */
export function describeVariables(
  isWanted: (variable: Variable) => boolean = () => true,
): ReadonlyMap<string, readonly Described[]> {
  return new Map(
    Object.entries<Record<string, Variable>>(SECTIONS).map(([heading, rows]) => [
      heading,
      Object.entries(rows)
        .filter(([, variable]) => isWanted(variable))
        .flatMap(describe),
    ]),
  );
}

function describe([option, variable]: [string, Variable]): Described[] {
  const { kind, says, isSecret, defaultWords, default: given } = variable;
  const name = variableOf(option);
  const value = typeof given === 'function' ? given({}) : given;
  const literal = typeof value === 'boolean' ? Number(value) : (value as string | number);
  const standard = defaultWords ?? (value === undefined ? 'unset' : `\`${literal}\``);
  const described = { name, default: standard, values: kind.values, says };
  if (!isSecret) return [described];
  const file = `File with the value of \`${name}\`.`;
  return [described, { name: `${name}_FILE`, default: 'unset', values: 'a path', says: file }];
}

/** Describes each variable in a line, for the help text: its first sentence and its default. @param prefix of its name */
export function helpOnVariables(prefix = '', isWanted?: (variable: Variable) => boolean): string {
  return [...describeVariables(isWanted)]
    .map(([heading, variables]) => {
      const lines = variables.map(({ name, default: standard, says }) => {
        const [sentence = ''] = plain(says).split(/(?<=\.) /);
        return `  ${prefix}${name.padEnd(24)} ${sentence}${standard === 'unset' ? '' : ` [${plain(standard)}]`}`;
      });
      return `${heading}:\n${lines.join('\n')}`;
    })
    .join('\n\n');
}
