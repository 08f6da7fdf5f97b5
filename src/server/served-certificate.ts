import { readCertificate, type Certificate } from './front-end/certificate.js';
import type { FrontEnd } from './front-end/front-end.js';

/** The certificate that a service serves, which can be read anew from the same files. */
export class ServedCertificate {
  #current: Certificate;

  private constructor(current: Certificate) {
    this.#current = current;
  }

  /**
   * @returns `null` where the service has none
   * @throws Error where the files cannot be served
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
   * Reads the files anew and serves what is in them to new connections.
   *
   * @throws Error where they cannot be served; the old certificate is served on
   */
  reload(frontEnds: readonly Pick<FrontEnd, 'useCertificate'>[]): Certificate {
    const next = readCertificate(this.#current);
    for (const frontEnd of frontEnds) frontEnd.useCertificate(next);
    this.#current = next;
    return next;
  }
}
