import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServiceProcess } from '../scripts/faults/service-process.js';
import { digestsModule } from '../scripts/record-native.mjs';
import { checkNative } from '../src/service/native.js';
import { NATIVE_DIGESTS } from '../src/service/native-digests.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

const manifest = JSON.parse(read('package.json')) as Record<
  'dependencies' | 'optionalDependencies' | 'devDependencies',
  Record<string, string>
>;

interface Locked {
  readonly dev?: boolean;
  readonly hasInstallScript?: boolean;
}
const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> };
/** What is installed with drs-verify, by the path in node_modules. */
const installed = Object.entries(lock.packages).filter(([name, { dev = false }]) => name !== '' && !dev);

it('pins every package exactly', () => {
  for (const [name, version] of Object.entries({
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
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
  const scripted = installed
    .filter(([, { hasInstallScript = false }]) => hasInstallScript)
    .map(([name]) => name);
  expect(scripted).toEqual(HARMLESS);
});

it('says why each dependency is there', () => {
  const rows = [...read('docs/dependencies.md').matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);
  for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }))
    expect(rows).toContain(name);
});

it('lists all that is installed in the SBOM, and nothing else', () => {
  const sbom = JSON.parse(
    execFileSync(process.execPath, [path.join(root, 'scripts/sbom.mjs')], { encoding: 'utf8' }),
  ) as { bomFormat: string; components: { name: string; licenses: unknown[] }[] };
  expect(sbom.bomFormat).toBe('CycloneDX');
  const names = installed.map(([name]) => name.slice(name.lastIndexOf('node_modules/') + 13));
  expect(sbom.components.map(({ name }) => name).sort()).toEqual(names.sort());
});

describe('native binaries', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-native-'));
  const binary = path.join(
    root,
    `node_modules/sodium-native/prebuilds/${process.platform}-${process.arch}/sodium-native.node`,
  );
  afterAll(() => rmSync(folder, { recursive: true }));

  it('are recorded, those of every platform and every ABI', () => {
    expect(read('src/service/native-digests.ts')).toBe(digestsModule());
    expect(Object.keys(NATIVE_DIGESTS['sodium-native'] ?? {})).toContain(
      'prebuilds/linux-x64/sodium-native.node',
    );
    expect(Object.keys(NATIVE_DIGESTS['uWebSockets.js'] ?? {})).toContain('uws_linux_x64_115.node');
  });

  it('pass as they were installed, and those of other packages are left alone', () => {
    expect(checkNative([binary, '/opt/agent/build/agent.node']).problems).toEqual([]);
  });

  it.each(['sodium-native.node', 'uws_linux_x64_115.node'])(
    'are refused where a byte was added: %s',
    (name) => {
      const file = path.join(folder, name);
      cpSync(binary, file);
      appendFileSync(file, '\0');
      const { problems } = checkNative([file, binary]);
      expect(problems).toEqual([
        expect.stringMatching(/has the SHA-256 [\da-f]{64}; expected one of the \d+/),
      ]);
    },
  );

  it('are refused if they are gone, or if none of libsodium is loaded', () => {
    expect(checkNative([path.join(folder, 'gone', 'sodium-native.node')]).problems).toEqual([
      expect.stringContaining('cannot be read'),
    ]);
    expect(checkNative([]).problems).toEqual([
      expect.stringContaining('sodium-native is not among the loaded files'),
    ]);
  });

  describe('of a service whose libsodium was exchanged', () => {
    const at = (...parts: string[]) => path.join(folder, 'service', ...parts);
    beforeAll(() => {
      cpSync(path.join(root, 'dist'), at('dist'), { recursive: true });
      cpSync(path.join(root, 'package.json'), at('package.json'));
      cpSync(path.join(root, 'node_modules/sodium-native'), at('node_modules/sodium-native'), {
        recursive: true,
      });
      for (const name of readdirSync(path.join(root, 'node_modules')))
        if (name !== 'sodium-native')
          symlinkSync(path.join(root, 'node_modules', name), at('node_modules', name));
      appendFileSync(at(path.relative(root, binary)), '\0');
    });
    const start = async (env: Record<string, string>) =>
      ServiceProcess.start({ env, main: at('dist/cli/main.js') });

    it('end it before it listens', async () => {
      await expect(start({})).rejects.toThrow(/ended with 1: .*sodium-native\.node has the SHA-256/s);
    });

    it('run with VERIFY_NATIVE=off', async () => {
      const service = await start({ VERIFY_NATIVE: 'off' });
      await service.stop();
    });
  });
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
