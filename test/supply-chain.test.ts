import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  installedFor,
  SERVICE_PACKAGES,
  serviceManifest,
  type Locked,
} from '../scripts/service-packages.mjs';
import { ServiceProcess } from './support/service-process.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

const manifest = JSON.parse(read('package.json')) as Record<
  'dependencies' | 'devDependencies' | 'peerDependencies' | 'peerDependenciesMeta',
  Record<string, string>
>;

const lock = JSON.parse(read('package-lock.json')) as {
  packages: Record<string, Locked & { integrity?: string; hasInstallScript?: boolean }>;
};
/** What is installed with drs-verify and for the service, by the path in node_modules. */
const installed = installedFor(serviceManifest(manifest), lock.packages);

it('pins every package exactly', () => {
  for (const [name, version] of Object.entries({
    ...manifest.dependencies,
    ...manifest.devDependencies,
  })) {
    expect([name, version]).toEqual([
      name,
      expect.stringMatching(/^(npm:[\w@/.-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/),
    ]);
  }
});

// What it does is a warning about version ranges in other manifests.
const HARMLESS = ['node_modules/protobufjs'];

it('needs no install script: npm ci --ignore-scripts gives the same', () => {
  expect(installed.length).toBeGreaterThan(20);
  expect(installed.filter((name) => lock.packages[name]?.hasInstallScript)).toEqual(HARMLESS);
});

describe('what only the service loads', () => {
  it('is an optional peer, so that a user of the library does not get it', () => {
    const inPackage = installedFor(manifest, lock.packages);
    for (const name of SERVICE_PACKAGES) {
      expect(manifest.peerDependencies).toHaveProperty([name]);
      expect(manifest.peerDependenciesMeta[name]).toEqual({ optional: true });
      expect(inPackage).not.toContain(`node_modules/${name}`);
      expect(installed).toContain(`node_modules/${name}`);
    }
  });

  it('is added by the command that an error or the log names, in the version that is tested here', () => {
    const sources = ['service/http/load-front-end', 'service/grpc/open', 'redis/connection'];
    const named = sources.flatMap((source) =>
      [...read(`src/${source}.ts`).matchAll(/npm install ([^`']+)/g)].flatMap(([, specs = '']) =>
        specs.split(' '),
      ),
    );
    const pinned = SERVICE_PACKAGES.map((name) => `${name}@${manifest.devDependencies[name]}`);
    expect(named.sort()).toEqual(pinned.sort());
  });
});

it('says why each dependency is there', () => {
  const rows = [...read('docs/dependencies.md').matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);
  for (const name of Object.keys(serviceManifest(manifest).dependencies)) expect(rows).toContain(name);
});

it('lists all that is installed in the SBOM, and nothing else', () => {
  const sbom = JSON.parse(
    execFileSync(process.execPath, [path.join(root, 'scripts/sbom.mjs')], { encoding: 'utf8' }),
  ) as { bomFormat: string; components: { name: string; licenses: unknown[] }[] };
  expect(sbom.bomFormat).toBe('CycloneDX');
  const names = installed.map((name) => name.slice(name.lastIndexOf('node_modules/') + 13));
  expect(sbom.components.map(({ name }) => name).sort()).toEqual(names.sort());
});

it('binds every package by its hash, binaries included', () => {
  const locked = Object.entries(lock.packages).filter(([name]) => name !== '');
  expect(locked.filter(([, { integrity = '' }]) => !/^sha512-[\w+/]{86}==$/.test(integrity))).toEqual([]);
});

const major = Number(process.versions.node.split('.')[0]);
// Later versions want a permission for the network, too.
describe.skipIf(major > 24)('the permission model', () => {
  it('lets the service run with the flags of docs/dependencies.md', async () => {
    const [, block = ''] =
      /```sh\n(node --experimental-permission[^`]+)```/.exec(read('docs/dependencies.md')) ?? [];
    const flags = [...block.matchAll(/--[\w-]+(?:="?[^\s"]+)?/g)].map(([flag]) =>
      flag
        .replace('"', '')
        .replace('$PWD/', root)
        .replace('--experimental-permission', major === 20 ? '$&' : '--permission'),
    );
    expect(flags).toHaveLength(6);
    const service = await ServiceProcess.start({ env: {}, nodeFlags: flags });
    try {
      const answer = await fetch(`${service.url}/verify`, { method: 'POST', body: '{}' });
      expect(answer.status).toBe(200);
      expect(await (await fetch(`${service.url}/readyz`)).json()).toEqual({ status: 'ready' });
    } finally {
      await service.stop();
    }
  });
});
