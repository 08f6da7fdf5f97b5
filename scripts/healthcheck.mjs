// Ends with 0 where the service of this container answers /healthz, on whatever LISTEN, TLS_CERT_FILE and PORT say.
import http from 'node:http';
import https from 'node:https';

const { LISTEN = '', PORT = '8080', TLS_CERT_FILE = '' } = process.env;
const socketPath = LISTEN.trim().replace(/^unix:/, '');
const isTls = TLS_CERT_FILE.trim() !== '' && socketPath === '';
// Who serves the loopback address of this container is not in doubt, and the certificate is for another name.
const at = socketPath === '' ? { host: '127.0.0.1', port: PORT, rejectUnauthorized: false } : { socketPath };
(isTls ? https : http)
  .get({ ...at, path: '/healthz', timeout: 2500 }, ({ statusCode }) =>
    process.exit(statusCode === 200 ? 0 : 1),
  )
  .on('timeout', () => process.exit(1))
  .on('error', () => process.exit(1));
