import { readdirSync, readlinkSync } from 'node:fs';

/** What this process has open below a folder. Linux only. */
export function openFilesIn(folder: string): string[] {
  return readdirSync('/proc/self/fd')
    .map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        // The one that was open to read this folder.
        return '';
      }
    })
    .filter((target) => target.startsWith(folder));
}
