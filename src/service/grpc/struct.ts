import type { Struct, StructValue } from './messages.js';

// Each level of JSON takes three levels of a Struct, and readers of protobuf refuse more than 100.
const MAX_DEPTH = 16;

/**
 * A JSON object as a `google.protobuf.Struct`. Members that are nested more than 16 deep are left out: with them, a
 * reader would refuse the whole message.
 *
 * @example toStruct({ depth: 2 }); // { fields: [{ key: 'depth', value: { numberValue: 2 } }] }
 */
export function toStruct(object: object): Struct {
  const fields: { key: string; value: StructValue }[] = [];
  for (const [key, member] of Object.entries(object)) {
    const value = member === undefined ? null : toValue(member, 1);
    if (value !== null) fields.push({ key, value });
  }
  return { fields };
}

/** Returns `null` if the value is nested too deep. */
function toValue(value: unknown, depth: number): StructValue | null {
  switch (typeof value) {
    case 'string':
      return { stringValue: value };
    case 'number':
      return { numberValue: value };
    case 'boolean':
      return { boolValue: value };
    default:
      break;
  }
  if (typeof value !== 'object' || value === null) return { nullValue: 0 };
  if (depth > MAX_DEPTH) return null;
  if (Array.isArray(value)) {
    const values: StructValue[] = [];
    for (const item of value) {
      const made = toValue(item, depth + 1);
      if (made === null) return null;
      values.push(made);
    }
    return { listValue: { values } };
  }
  const fields: { key: string; value: StructValue }[] = [];
  for (const [key, member] of Object.entries(value)) {
    const made = toValue(member, depth + 1);
    if (made === null) return null;
    fields.push({ key, value: made });
  }
  return { structValue: { fields } };
}
