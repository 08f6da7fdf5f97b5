import { MAX_JSON_DEPTH } from './json-defects.js';

/**
 * Whether JSON can express a value. `JSON.stringify` writes `null` for an infinity, for example, which could then equal
 * a signed `null`. What is nested deeper than a payload may be is not looked at: it cannot equal signed arguments, and
 * a value that contains itself has no end.
 */
export function denotesJson(value: unknown, depth = 0): boolean {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed();
    case 'number':
      return Number.isFinite(value);
    case 'boolean':
      return true;
    case 'object':
      break;
    default:
      return false;
  }
  if (value === null || depth >= MAX_JSON_DEPTH) return true;
  let items: readonly unknown[];
  if (Array.isArray(value)) {
    items = value;
  } else {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return false;
    if (!Object.keys(value).every((name) => name.isWellFormed())) return false;
    items = Object.values(value);
  }
  // Unlike every(), this reads a hole as the undefined that it stands for.
  for (const item of items) if (!denotesJson(item, depth + 1)) return false;
  return true;
}
