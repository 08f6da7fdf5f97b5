import { toDouble } from './jcs.js';
import { member, type Json, type JsonObject } from './json.js';
import { isEvasive, limitedArguments, sumOf, type Said } from './policy.js';

/** The rules of docs/spec/tools.md. */

type From = { readonly argument: string; readonly before?: string };

/** A line of a file of tools. */
export interface Line {
  readonly tool: string;
  readonly cost_usd?: number | From;
  readonly writes?: boolean | From;
  readonly pii?: boolean | From;
  readonly data_class?: string | From;
  readonly resource?: string | From;
}

const ARGUMENT_OF = {
  cost_usd: 'estimated_cost_usd',
  writes: 'write_access',
  pii: 'pii_access',
  data_class: 'data_class',
  resource: 'resource_uri',
} as const;

/** What the operator says of a call with these arguments. */
export function saidOf(lines: readonly Line[], args: JsonObject): Said {
  const tool = member(args, 'tool');
  const line =
    lines.find((one) => tool?.kind === 'string' && one.tool === tool.value) ??
    lines.find((one) => one.tool === '*');
  const said = new Map<string, readonly Json[] | 'unknown'>();
  for (const [name, argument] of Object.entries(ARGUMENT_OF)) {
    const fact = line?.[name as keyof typeof ARGUMENT_OF];
    if (fact !== undefined) said.set(argument, valuesOf(argument, fact, args));
  }
  return said;
}

function valuesOf(argument: string, fact: number | boolean | string | From, args: JsonObject) {
  if (typeof fact === 'number') return [{ kind: 'number', text: String(fact) } as const];
  if (typeof fact === 'boolean') return [{ kind: 'boolean', value: fact } as const];
  if (typeof fact === 'string') return [{ kind: 'string', value: fact } as const];
  const found = at(args, fact.argument);
  if (found === undefined) return 'unknown';
  const items = found.kind === 'array' ? found.items : [found];
  if (items.length === 0 || items.length > 256) return 'unknown';
  const values = items.map((item) =>
    item.kind === 'string' ? { ...item, value: (fact.before ?? '') + item.value } : item,
  );
  const isRight = (value: Json) => {
    switch (argument) {
      case 'estimated_cost_usd':
        return value.kind === 'number' && toDouble(value.text) >= 0 && Number.isFinite(toDouble(value.text));
      case 'write_access':
      case 'pii_access':
        return value.kind === 'boolean';
      case 'resource_uri':
        return value.kind === 'string' && !isEvasive(value.value);
      default:
        return value.kind === 'string';
    }
  };
  if (!values.every(isRight)) return 'unknown';
  return argument === 'estimated_cost_usd' ? [sumOf(values as (Json & { kind: 'number' })[])] : values;
}

/** The argument of a name, or of a JSON Pointer. */
function at(args: JsonObject, argument: string): Json | undefined {
  if (!argument.startsWith('/')) return member(args, argument);
  let found: Json | undefined = args;
  for (const step of argument.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    if (found?.kind === 'object') found = member(found, name);
    else if (found?.kind === 'array' && /^(?:0|[1-9]\d*)$/.test(name)) found = found.items[Number(name)];
    else return undefined;
  }
  return found;
}

/** The members of a context that say who states what. */
export function statedOf(policies: readonly JsonObject[], args: JsonObject, said: Said) {
  const by: Record<string, 'tool' | 'call'> = {};
  const unstated: string[] = [];
  for (const policy of policies)
    for (const [argument, limitsNothing] of limitedArguments(policy)) {
      if (said.has(argument)) by[argument] = 'tool';
      else if (member(args, argument) !== undefined) by[argument] = 'call';
      else if (!limitsNothing && !unstated.includes(argument)) unstated.push(argument);
    }
  const [cost] = by['estimated_cost_usd'] === 'tool' ? (said.get('estimated_cost_usd') ?? []) : [];
  return {
    ...(Object.keys(by).length > 0 && { stated_by: by }),
    ...(unstated.length > 0 && { unstated }),
    ...(typeof cost === 'object' && cost.kind === 'number' && { cost_usd: toDouble(cost.text) }),
  };
}
