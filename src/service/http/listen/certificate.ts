import { Buffer } from 'node:buffer';
import { constants, createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { readAtMost } from '../../configuration/secret-files.js';

/** A certificate that has been read and checked. */
export interface Certificate {
  /** The PEM file of the certificate, followed by its intermediate certificates. */
  readonly certFile: string;
  /** That of its private key, not encrypted. */
  readonly keyFile: string;
  /** What they hold, without byte order marks. */
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly isMarked: boolean;
  /** Its `notAfter`, in Unix seconds. */
  readonly expiresAt: number;
  /** SHA-256 of the certificate, to show in the log which one is served. */
  readonly fingerprint: string;
}

const MAX_BYTES = 256 * 1024;
/** What clients can check (RFC 8446 §4.2.3), by Node's names. OpenSSL also serves other curves. */
const KEYS: readonly unknown[] = ['rsa', 'rsa-pss', 'ed25519', 'prime256v1', 'secp384r1', 'secp521r1'];

/**
 * Reads a certificate and its key, and checks that they can be served together.
 *
 * @throws Error saying what was found in which file, what was expected and what to do. It never quotes the key file.
 */
export function readCertificate({
  certFile,
  keyFile,
}: Pick<Certificate, 'certFile' | 'keyFile'>): Certificate {
  const attempt = <T>(variable: string, path: string, expected: string, read: () => T): T => {
    try {
      return read();
    } catch (cause) {
      const problem = `${(cause as Error).message}; ${expected}`;
      throw new Error(`${variable} is ${JSON.stringify(path)}: ${problem}`, { cause });
    }
  };
  const ofCert = <T>(expected: string, read: () => T) => attempt('TLS_CERT_FILE', certFile, expected, read);
  const ofKey = <T>(expected: string, read: () => T) => attempt('TLS_KEY_FILE', keyFile, expected, read);
  let isMarked = false;
  const read = (file: string) => {
    const bytes = readAtMost(file, MAX_BYTES);
    if (bytes.indexOf('\ufeff') !== 0) return bytes;
    isMarked = true;
    return bytes.subarray(Buffer.byteLength('\ufeff'));
  };
  const cert = ofCert('expected a PEM file', () => read(certFile));
  const key = ofKey('expected a PEM file', () => read(keyFile));
  const isCertificate =
    'expected a certificate with its chain, in PEM that begins with -----BEGIN CERTIFICATE-----';
  const leaf = ofCert(isCertificate, () => new X509Certificate(cert));
  const isKey = 'expected its private key in PEM without a passphrase, readable by this process only';
  const privateKey = ofKey(isKey, () => createPrivateKey(key));
  ofKey('expected RSA, Ed25519, or ECDSA with P-256, P-384 or P-521; issue another certificate', () => {
    const { asymmetricKeyType: type, asymmetricKeyDetails: { namedCurve = type } = {} } = privateKey;
    if (!KEYS.includes(namedCurve)) throw new Error(`it is a key of ${namedCurve}`);
  });
  ofKey('write both again, the key first', () => {
    if (!leaf.checkPrivateKey(privateKey))
      throw new Error('it is not the key of the certificate in TLS_CERT_FILE');
  });
  const expiresAt = Date.parse(leaf.validTo) / 1000;
  ofCert('expected one that is valid now; renew it', () => {
    if (!(expiresAt > Date.now() / 1000)) throw new Error(`the certificate expired on ${leaf.validTo}`);
  });
  const canServe = 'expected a certificate with its chain and a key that is long enough; issue another one';
  ofCert(canServe, () => createSecureContext({ cert, key }));
  return { certFile, keyFile, cert, key, isMarked, expiresAt, fingerprint: leaf.fingerprint256 };
}

/** Lends names of files that hold just what was read, for a library that reads them itself. */
export function withFiles<T>(
  { certFile, keyFile, cert, key, isMarked }: Certificate,
  use: (certFile: string, keyFile: string) => T,
): T {
  if (!isMarked) return use(certFile, keyFile);
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-'));
  try {
    const copies = [path.join(folder, 'cert'), path.join(folder, 'key')] as const;
    for (const [at, copy] of copies.entries()) writeFileSync(copy, at === 0 ? cert : key, { mode: 0o600 });
    return use(...copies);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The TLS settings of Node. They match uWebSockets.js, and NODE_OPTIONS cannot weaken them. */
export function secureContextOf({ cert, key }: Certificate): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_RENEGOTIATION };
}

/**
 * The certificate to serve.
 *
 * @returns `null` if the service has none
 * @throws Error if the files cannot be read or used
 */
export function certificateOf({ tlsCertFile: certFile, tlsKeyFile: keyFile }: TlsFiles) {
  return certFile === undefined || keyFile === undefined ? null : readCertificate({ certFile, keyFile });
}

type TlsFiles = Readonly<Partial<Record<'tlsCertFile' | 'tlsKeyFile', string | undefined>>>;
