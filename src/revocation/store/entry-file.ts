import type { FileKind } from '../../files/file-lock.js';
import type { FileDeps } from '../../files/locked-file.js';
import { readEntry, toJson, type LocalRevocation } from '../entry.js';
import { RevocationStoreError } from './revocation-store.js';

/** The file of local revocations: a JSON object a line, appended and never rewritten. */
export const ENTRY_FILE: FileKind = {
  name: 'the revocation store',
  mode: 0o640,
  ifLocked: 'set REVOCATION_STORE_PATH to a file of its own for each process',
  ifDamaged: 'correct the line, or delete it',
  Failure: RevocationStoreError,
};

export function takeEntries(take: (entry: LocalRevocation) => void): FileDeps['take'] {
  return (line) => {
    const entry = readEntry(line);
    if (typeof entry === 'string') return entry;
    take(entry);
    return null;
  };
}

/** @example lineOf(entry); // '{"status_list_index":7,"at":"2026-11-25T03:12:00.000Z","reason":"laptop stolen"}\n' */
export function lineOf(entry: LocalRevocation): string {
  return `${toJson(entry)}\n`;
}
