import { readCertificate, type Certificate } from './certificate.js';
import type { FrontEnd } from '../front-end.js';

/** The certificate that a service serves. It can be reloaded from the same files. */
export class ServedCertificate {
  #current: Certificate;

  private constructor(current: Certificate) {
    this.#current = current;
  }

  /**
   * @returns `null` if the service has no certificate
   * @throws Error if the files cannot be read or used
   */
  static read({
    tlsCertFile: certFile,
    tlsKeyFile: keyFile,
  }: {
    readonly tlsCertFile?: string | undefined;
    readonly tlsKeyFile?: string | undefined;
  }): ServedCertificate | null {
    if (certFile === undefined || keyFile === undefined) return null;
    return new ServedCertificate(readCertificate({ certFile, keyFile }));
  }

  get current(): Certificate {
    return this.#current;
  }

  /**
   * Reads the files again, and serves the new certificate to new connections.
   *
   * @throws Error if the files cannot be used; the old certificate stays
   */
  reload(frontEnds: readonly Pick<FrontEnd, 'useCertificate'>[]): Certificate {
    const next = readCertificate(this.#current);
    for (const frontEnd of frontEnds) frontEnd.useCertificate(next);
    this.#current = next;
    return next;
  }
}
