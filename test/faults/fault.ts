import type { ServiceProcess } from '../support/service-process.js';
import type { Traffic } from './traffic.js';

/** What a fault can use. */
export interface Scene {
  readonly service: ServiceProcess;
  readonly traffic: Traffic;
  /** Revokes a delegation that is in use. @returns whether that was acknowledged */
  readonly revokeOne: () => Promise<boolean>;
  /** Duration of a lasting fault in milliseconds. */
  readonly lastMs: number;
  /** Reports what was observed during the fault. */
  readonly note: (text: string) => void;
  /** Fails the run if a condition does not hold: then the behaviour is not as documented. */
  readonly demand: (holds: boolean, what: string) => void;
}

/** What the service needs for a fault, and how the fault is caused. */
export interface Setup {
  readonly env: Readonly<Record<string, string>>;
  readonly within?: readonly string[];
  readonly nodeFlags?: readonly string[];
  readonly isReplayRefused?: boolean;
  readonly aheadSecs?: () => number;
  readonly rate?: number;
  /** Causes the fault, keeps it for a while, and ends it. */
  readonly run: (scene: Scene) => Promise<void>;
  readonly close?: () => Promise<void> | void;
}

/** A real fault that can be caused. */
export interface Fault {
  readonly name: string;
  /** The first cell of its row in docs/faults.md, if faults with the same result share a row. Default: the name. */
  readonly row?: string;
  /** What the service does during the fault: the text in docs/faults.md. */
  readonly stated: string;
  /** Whether the short run includes it. */
  readonly isQuick?: boolean;
  /** Why it cannot be caused on this machine; `null` if it can. */
  readonly missing?: () => string | null;
  /** @param folder a folder for files, which is removed afterwards */
  readonly prepare: (folder: string) => Promise<Setup> | Setup;
}
