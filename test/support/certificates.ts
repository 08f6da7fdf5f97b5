import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import path from 'node:path';

/** A certificate for `localhost` and 127.0.0.1, and its key, made by openssl. */
export interface MadeCertificate {
  readonly certFile: string;
  readonly keyFile: string;
}

/**
 * Makes a self-signed certificate.
 *
 * @param name of both files, and the common name
 * @param days it is valid from now on
 */
export function makeCertificate(
  folder: string,
  name: string,
  {
    key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'],
    days = 2,
  }: { key?: string[]; days?: number } = {},
): MadeCertificate {
  const certFile = path.join(folder, `${name}.crt`);
  const keyFile = path.join(folder, `${name}.key`);
  const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const files = ['-nodes', '-keyout', keyFile, '-out', certFile, '-days', String(days)];
  execFileSync('openssl', ['req', '-x509', ...key, ...names, ...files], { stdio: 'ignore' });
  return { certFile, keyFile };
}

/** Makes a certificate that has expired. */
export function makeExpiredCertificate(folder: string, name: string): MadeCertificate {
  const [certFile, keyFile, request] = ['crt', 'key', 'csr'].map((end) =>
    path.join(folder, `${name}.${end}`),
  ) as [string, string, string];
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' });
  openssl(
    'req',
    '-new',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-subj',
    `/CN=${name}`,
    '-keyout',
    keyFile,
    '-out',
    request,
  );
  openssl('x509', '-req', '-in', request, '-signkey', keyFile, '-days', '0', '-out', certFile);
  return { certFile, keyFile };
}

/** Makes an authority, and a certificate of it for names and addresses. */
export function makeAuthority(
  folder: string,
  names: readonly string[],
): MadeCertificate & { caFile: string } {
  const at = (name: string) => path.join(folder, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' });
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const [caFile, certFile, keyFile] = [at('ca.crt'), at('server.crt'), at('server.key')];
  openssl('req', '-x509', ...curve, '-subj', '/CN=authority', '-keyout', at('ca.key'), '-out', caFile);
  const alternatives = names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join(',');
  writeFileSync(at('server.ext'), `subjectAltName=${alternatives}`);
  openssl('req', ...curve, '-subj', '/CN=server', '-keyout', keyFile, '-out', at('server.csr'));
  const signing = ['-CA', caFile, '-CAkey', at('ca.key'), '-CAcreateserial', '-extfile', at('server.ext')];
  openssl('x509', '-req', '-in', at('server.csr'), ...signing, '-days', '2', '-out', certFile);
  return { caFile, certFile, keyFile };
}
