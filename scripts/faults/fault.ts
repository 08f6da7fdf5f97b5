import type { ServiceProcess } from './service-process.js';
import type { Traffic } from './traffic.js';

/** What a fault has to work with. */
export interface Scene {
  readonly service: ServiceProcess;
  readonly traffic: Traffic;
  /** Revokes a delegation that is in use; whether that was acknowledged. */
  readonly revokeOne: () => Promise<boolean>;
  /** Milliseconds for which a lasting fault lasts. */
  readonly lastMs: number;
  /** Says what was seen while the fault was there. */
  readonly note: (text: string) => void;
  /** Fails the run: the behaviour is not as stated. */
  readonly demand: (holds: boolean, what: string) => void;
}

/** What a service needs beside itself, and what becomes of it. */
export interface Setup {
  readonly env: Readonly<Record<string, string>>;
  readonly within?: readonly string[];
  readonly nodeFlags?: readonly string[];
  readonly isReplayRefused?: boolean;
  readonly aheadSecs?: () => number;
  readonly rate?: number;
  /** Brings the fault about, keeps it for a while, and takes it away. */
  readonly run: (scene: Scene) => Promise<void>;
  readonly close?: () => Promise<void> | void;
}

/** A fault that is brought about for real. */
export interface Fault {
  readonly name: string;
  /** What the service does then, in the words of docs/faults.md. */
  readonly stated: string;
  /** Whether the short run has it, too. */
  readonly isQuick?: boolean;
  /** A reason for which it cannot be brought about on this machine. */
  readonly missing?: () => string | null;
  /** @param folder for files; it is taken away afterwards */
  readonly prepare: (folder: string) => Promise<Setup> | Setup;
}
