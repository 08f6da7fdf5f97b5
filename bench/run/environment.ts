import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, release, totalmem, type as systemType } from 'node:os';
import path from 'node:path';
import { wrkVersion } from '../load/wrk.js';
import { ROOT } from './paths.js';

const PACKAGES = [
  'sodium-native',
  'uWebSockets.js',
  'piscina',
  'autocannon',
  'hdr-histogram-js',
  'tinybench',
  'express',
  'fastify',
  'jose',
  '@ucanto/validator',
  '@biscuit-auth/biscuit-wasm',
];

/** Describes the parts of the machine that affect the figures. */
export function describeMachine(): Record<string, string | number> {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${systemType()} ${release()}`,
    loadAverageAtStart: loadavg()[0] ?? Number.NaN,
  };
}

/** The versions of the programs and packages that were used. */
export function describeVersions(): Record<string, string> {
  const versions: Record<string, string> = { node: process.versions.node, v8: process.versions.v8 };
  for (const name of PACKAGES) versions[name] = versionOf(name);
  versions['wrk'] = wrkVersion() ?? 'not installed';
  return versions;
}

function versionOf(name: string): string {
  try {
    const file = path.join(ROOT, 'node_modules', name, 'package.json');
    return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  } catch {
    return 'not installed';
  }
}

/** The measured commit, and whether the working copy differs from it. */
export function describeCommit(): { commit: string; isDirty: boolean } {
  try {
    const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
    return {
      commit: git('rev-parse', 'HEAD'),
      isDirty: git('status', '--porcelain', '--', 'src', 'package-lock.json') !== '',
    };
  } catch {
    return { commit: 'unknown', isDirty: false };
  }
}
