import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { makeAuthority } from '../support/certificates.js';
import { isInstalled } from '../support/needed-programs.mjs';

// Every address is one of this namespace, and so is what the resolver of the C library asks.
const NETWORK = `
  ip link set lo up
  ip route add local 0.0.0.0/0 dev lo
  ip -6 route add local ::/0 dev lo
  mount --bind "$1/resolv.conf" /etc/resolv.conf
  mount --bind "$1/hosts" /etc/hosts
  exec "$2" "$3"`;

/** Whether {@link runInNetwork} works, or would with the programs that a test needs: this process may make a namespace. */
export const mayMakeNetwork =
  !isInstalled('ip') ||
  !isInstalled('unshare') ||
  spawnSync(
    'unshare',
    ['-rnm', 'sh', '-c', 'ip link set lo up && mount --bind /etc/hosts /etc/resolv.conf'],
    {
      stdio: 'ignore',
    },
  ).status === 0;

/**
 * Runs a script of this folder in a network of its own, in which every address is the machine itself.
 *
 * @param input what it reads from standard input, with the files of a certificate for `*.names.test` and some addresses
 * @param isTrusted whether Node knows the authority of that
 * @returns what it writes
 */
export async function runInNetwork<T>(script: string, input: object, isTrusted = true): Promise<T> {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-network-'));
  try {
    const names = ['*.names.test', '93.184.215.14', '127.0.0.1', '10.1.2.3'];
    const { caFile, certFile, keyFile } = makeAuthority(folder, names);
    writeFileSync(path.join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\noptions attempts:1 timeout:1\n');
    const hosts =
      '127.0.0.1 localhost\n::1 localhost\n93.184.215.14 issuer.names.test\n10.1.2.3 inside.names.test\n';
    writeFileSync(path.join(folder, 'hosts'), hosts);
    const child = fileURLToPath(new URL(script, import.meta.url));
    const args = ['-rnm', 'sh', '-euc', NETWORK, 'sh', folder, process.execPath, child];
    const inside = spawn('unshare', args, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, NODE_EXTRA_CA_CERTS: isTrusted ? caFile : undefined },
    });
    inside.stdin.end(JSON.stringify({ ...input, certFile, keyFile }));
    return JSON.parse(await text(inside.stdout)) as T;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
