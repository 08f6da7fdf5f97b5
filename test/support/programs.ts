import { spawnSync } from 'node:child_process';

/** Whether a program can be run here: tests with real clients and proxies are left out where it cannot. */
export function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;
}
