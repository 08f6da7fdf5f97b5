import type { Subject } from './subject.js';

/** Something that must always hold. It is not written for a particular fault. */
export interface Property {
  readonly name: string;
  /** Returns what was found wrong; empty if the property holds. */
  check(subject: Subject): Promise<string[]>;
}
