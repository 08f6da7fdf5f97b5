import type { Subject } from './subject.js';

/** Something that holds whatever happens; it knows of no particular fault. */
export interface Property {
  readonly name: string;
  /** What was found that should not be; empty where the property holds. */
  check(subject: Subject): Promise<string[]>;
}
