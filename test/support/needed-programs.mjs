// The programs of others that tests start for real: the one list, for the tests, .ci/run and newcomers.
// Plain JavaScript that needs no package, so that .ci/run can ask it first: `node test/support/needed-programs.mjs`
// prints the Debian packages of what is missing, and with `--found` the paths of what is there.
import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {object} NeededProgram
 * @property {string} [package] the Debian package that has it; without one, {@link NeededProgram.install} says how
 * @property {string} [file] where it is, if it is no command
 * @property {string} [install] a command that installs it, if no Debian package does
 * @property {string} tests what is tested with it
 */

/** The folder of the example that has a package of its own, since the package compiles. */
const SIGNER = 'examples/pkcs11-signer';

/** By the name of the command. */
export const PROGRAMS = /** @satisfies {Record<string, NeededProgram>} */ ({
  bwrap: { package: 'bubblewrap', tests: 'the image, as isolated as in a container' },
  caddy: { package: 'caddy', tests: 'the recipe for Caddy' },
  chromium: {
    package: 'chromium',
    file: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
    tests: 'the inspector, the report of the benchmarks, the package in a browser',
  },
  curl: { package: 'curl', tests: 'requests as curl sends them' },
  git: { package: 'git', tests: 'scripts that ask for commits' },
  haproxy: { package: 'haproxy', tests: 'the recipe for HAProxy, balancing' },
  helm: { install: 'sudo bash test/support/install-helm.sh', tests: 'the chart' },
  ip: { package: 'iproute2', tests: 'packets of 1,500 bytes' },
  nginx: { package: 'nginx-light', tests: 'the recipes for nginx, balancing' },
  ngx_http_js_module: {
    package: 'libnginx-mod-http-js',
    file: '/usr/lib/nginx/modules/ngx_http_js_module.so',
    tests: 'the recipe for nginx that binds bodies',
  },
  openssl: { package: 'openssl', tests: 'TLS' },
  perl: { package: 'perl', tests: 'notifications to systemd' },
  pkcs11js: {
    install: `npm install --no-package-lock --prefix ${SIGNER}`,
    file: fileURLToPath(new URL(`../../${SIGNER}/node_modules/pkcs11js`, import.meta.url)),
    tests: 'the example pkcs11-signer',
  },
  'pkcs11-tool': { package: 'opensc', tests: 'the example pkcs11-signer' },
  prlimit: { package: 'util-linux', tests: 'a file that cannot grow' },
  prometheus: { package: 'prometheus', tests: 'metrics, rules and dashboards in a real Prometheus' },
  promtool: { package: 'prometheus', tests: 'metrics and rules' },
  python3: { package: 'python3', tests: "requests as Python's http.client sends them" },
  'redis-server': { package: 'redis-server', tests: 'everything that is kept in Redis' },
  script: { package: 'bsdutils', tests: 'what the command asks on a terminal' },
  'softhsm2-util': { package: 'softhsm2', tests: 'the example pkcs11-signer' },
  ss: { package: 'iproute2', tests: 'the length of the queue of a listening socket' },
  'ssh-agent': { package: 'openssh-client', tests: 'keys that an ssh-agent holds' },
  'systemd-analyze': { package: 'systemd', tests: 'the unit for systemd' },
  'systemd-notify': { package: 'systemd', tests: 'notifications to systemd' },
  unshare: { package: 'util-linux', tests: 'a machine without IPv6, a disk that is full' },
  wrk: { package: 'wrk', tests: 'calls that bench:corpus writes' },
});

/** @typedef {keyof typeof PROGRAMS} ProgramName */

/** Where programs are found: Debian has proxies in a folder that only root searches. */
export const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin`;

/**
 * Whether a program can be run here.
 *
 * @param {ProgramName} name
 */
export function isInstalled(name) {
  return placesOf(name).length > 0;
}

/** @param {ProgramName} name */
function placesOf(name) {
  const { file } = /** @type {NeededProgram} */ (PROGRAMS[name]);
  const places = file === undefined ? PATH.split(':').map((folder) => path.join(folder, name)) : [file];
  return places.filter((place) => {
    try {
      accessSync(place, file === undefined ? constants.X_OK : constants.F_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * How to install programs: for a person to copy.
 *
 * @param {readonly ProgramName[]} names
 */
export function installCommand(names) {
  const rows = names.map((name) => /** @type {NeededProgram} */ (PROGRAMS[name]));
  const packages = packagesOf(names);
  const others = rows.flatMap(({ install }) => install ?? []);
  return [...(packages.length > 0 ? [`sudo apt-get install ${packages.join(' ')}`] : []), ...others].join(
    ' && ',
  );
}

/** @param {readonly ProgramName[]} names */
function packagesOf(names) {
  const rows = names.map((name) => /** @type {NeededProgram} */ (PROGRAMS[name]));
  return [...new Set(rows.flatMap((row) => row.package ?? []))].sort();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const names = /** @type {ProgramName[]} */ (Object.keys(PROGRAMS));
  const isFound = process.argv.includes('--found');
  const lines = isFound ? names.flatMap(placesOf) : packagesOf(names.filter((name) => !isInstalled(name)));
  console.log(lines.join('\n'));
}
