import type { JsonObject } from '../protocol/json.js';

interface LineShape {
  readonly kind: 'signing' | 'refund' | 'approval' | 'call' | 'refusal' | 'admin call';
  /** What a line is, for people. */
  readonly words: string;
  /** Whether a line that has none of the shapes before has this one. */
  readonly has: (line: JsonObject) => boolean;
}

/** The shapes of docs/spec/log.md, by which `drs-verify log` and the inspector read. */
export const LINE_SHAPES: readonly LineShape[] = [
  {
    kind: 'signing',
    words: 'A line of the record of drs-verify sign',
    has: ({ endpoint }) => endpoint === 'sign',
  },
  {
    kind: 'refund',
    words: 'A refund in the decision log',
    has: ({ endpoint, refund }) => typeof endpoint === 'string' && typeof refund === 'string',
  },
  {
    kind: 'approval',
    words: 'What happened to a question to a person',
    has: ({ endpoint }) => endpoint === 'approve',
  },
  {
    kind: 'call',
    words: 'A line of the decision log',
    has: ({ endpoint }) => typeof endpoint === 'string',
  },
  {
    kind: 'refusal',
    words: 'A line of the log of refusals',
    has: ({ msg, code }) => (msg === 'refused' || msg === 'observed') && typeof code === 'string',
  },
  {
    kind: 'admin call',
    words: 'A call of /admin in the log',
    has: ({ msg, outcome }) => msg === 'admin' && typeof outcome === 'string',
  },
];

export function shapeOf(line: JsonObject): LineShape | null {
  return LINE_SHAPES.find(({ has }) => has(line)) ?? null;
}
