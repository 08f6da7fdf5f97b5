import type { JsonObject } from '../protocol/json.js';

/** A shape of the lines that logs have. */
interface LineShape {
  readonly kind: 'signing' | 'refund' | 'call' | 'refusal' | 'admin call';
  /** What a line is, for people. */
  readonly words: string;
  /** Whether a line that has none of the shapes before has this one. */
  readonly has: (line: JsonObject) => boolean;
  /** Every member that it may have. */
  readonly members: ReadonlySet<string>;
}

const WRITTEN = ['time', 'instance', 'endpoint'];
const ASKED = ['requestId', 'traceId', 'address'];
const WHO = ['rootPrincipal', 'rootName', 'delegates', 'agent'];
const WHAT = ['jti', 'tool', 'command', 'toolServer'];
const WHY = ['code', 'block', 'message'];
const TARGET = ['statusListIndex', 'receipt', 'did', 'exp', 'reason'];
/** What pino writes in each line of the service's own log. */
const OWN = ['level', 'time', 'pid', 'hostname', 'name', 'msg'];

/**
 * The shapes of docs/spec/log.md. Writers are tested with this table; `drs-verify log` and the inspector read by it.
 */
export const LINE_SHAPES: readonly LineShape[] = [
  {
    kind: 'signing',
    words: 'A line of the record of drs-verify sign',
    has: ({ endpoint }) => endpoint === 'sign',
    members: new Set([...WRITTEN, ...WHO, ...WHAT, ...WHY, 'receipts']),
  },
  {
    kind: 'refund',
    words: 'A refund in the decision log',
    has: ({ endpoint, refund }) => typeof endpoint === 'string' && typeof refund === 'string',
    members: new Set([...WRITTEN, ...ASKED, ...WHO, ...WHAT, 'refund', 'calls', 'totalCostUsd', 'receipts']),
  },
  {
    kind: 'call',
    words: 'A line of the decision log',
    has: ({ endpoint }) => typeof endpoint === 'string',
    members: new Set([
      ...WRITTEN,
      ...ASKED,
      ...WHO,
      ...WHAT,
      ...WHY,
      'valid',
      'observed',
      'binding',
      'receipts',
      'agreed',
    ]),
  },
  {
    kind: 'refusal',
    words: 'A line of the log of refusals',
    has: ({ msg, code }) => (msg === 'refused' || msg === 'observed') && typeof code === 'string',
    members: new Set([...OWN, 'requestId', 'traceId', ...WHO, ...WHAT, ...WHY]),
  },
  {
    kind: 'admin call',
    words: 'A call of /admin in the log',
    has: ({ msg, outcome }) => msg === 'admin' && typeof outcome === 'string',
    members: new Set([...OWN, 'outcome', 'address', 'requestId', 'token', ...TARGET, 'err']),
  },
];

/** The shape of a line; `null` if it has none. */
export function shapeOf(line: JsonObject): LineShape | null {
  return LINE_SHAPES.find(({ has }) => has(line)) ?? null;
}
