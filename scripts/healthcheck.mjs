// Exits with 0 if the service of this container answers /healthz, at the address that LISTEN, TLS_CERT_FILE and PORT
// give.
import http from 'node:http';
import https from 'node:https';

const { LISTEN = '', PORT = '8080', TLS_CERT_FILE = '' } = process.env;
const socketPath = LISTEN.trim().replace(/^unix:/, '');
const isTls = TLS_CERT_FILE.trim() !== '';
// The certificate is not checked: it is for another name, and only this container can serve its loopback address.
const at = socketPath === '' ? { host: '127.0.0.1', port: PORT, rejectUnauthorized: false } : { socketPath };
(isTls ? https : http)
  .get({ ...at, path: '/healthz', timeout: 2500 }, ({ statusCode }) =>
    process.exit(statusCode === 200 ? 0 : 1),
  )
  .on('timeout', () => process.exit(1))
  .on('error', () => process.exit(1));
