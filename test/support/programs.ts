import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestOptions } from 'vitest';
import { ended, hasEnded } from './child.js';
import { eventually } from './eventually.js';
import { isInstalled, PATH, type ProgramName } from './needed-programs.mjs';
import { startOnPort } from './ports.mjs';
import { connectRaw } from './raw-http.js';

/** What a test needs, for the reporter: see `global-setup.ts`. */
declare module 'vitest' {
  interface TaskMeta {
    missing?: readonly ProgramName[];
  }
}

/**
 * Options of a test, or of a group of tests, that starts these programs: it is skipped where one is missing, and the end
 * of the run names what is missing.
 *
 * @example it('is what promtool accepts', needs('promtool'), async () => { … });
 */
export function needs(...programs: readonly ProgramName[]): TestOptions {
  // A server would start for each fault that is planted there, and none is planted in what speaks with it.
  if (process.env['MUTATED_FOLDER'] === 'usage') return { skip: true };
  const missing = programs.filter((program) => !isInstalled(program));
  return missing.length > 0 ? { skip: true, meta: { missing } } : {};
}

/** A program of others that listens on a port of this machine. */
export interface Program {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts a program with a port and a folder of its own. Resolves when it can be connected to.
 *
 * @param prepare writes the configuration into the folder, and returns the program's arguments
 */
export function startProgram(
  program: string,
  prepare: (port: number, folder: string) => readonly string[],
): Promise<Program> {
  return startOnPort(async (port) => {
    const folder = mkdtempSync(path.join(tmpdir(), `drs-${path.basename(program)}-`));
    const child = spawn(program, prepare(port, folder), {
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: folder,
      env: { PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-4000)));
    const stop = async () => {
      child.kill('SIGTERM');
      await ended(child);
      rmSync(folder, { recursive: true, force: true });
    };
    try {
      await eventually(async () => {
        if (!hasEnded(child)) (await connectRaw(port)).socket.destroy();
      });
      if (hasEnded(child))
        throw new Error(
          `${program} ended with ${child.exitCode ?? child.signalCode} before it listened: ${output}`,
        );
    } catch (error) {
      await stop();
      throw error;
    }
    return { url: `http://127.0.0.1:${port}`, stop };
  });
}
