import { spawnSync } from 'node:child_process';

/** Whether a program can be run here. If not, the tests that need it are skipped. */
export function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;
}
