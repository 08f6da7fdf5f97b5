import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { credentials, type ChannelCredentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { problemsOf } from '../service/problems-of.js';
import { callOnce, clientOf, grpcPortOf, HEALTH } from '../support/grpc.js';
import { makeCertificate, makeExpiredCertificate, type MadeCertificate } from '../support/certificates.js';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { metricOf, runToExit, startService, type RunningService } from '../support/service.js';

const run = promisify(execFile);
const folder = mkdtempSync(path.join(tmpdir(), 'drs-tls-'));
afterAll(() => rmSync(folder, { recursive: true }));

const tlsOf = ({ certFile, keyFile }: MadeCertificate) => ({
  TLS_CERT_FILE: certFile,
  TLS_KEY_FILE: keyFile,
});

describe('TLS', { ...needs('openssl'), shuffle: false }, () => {
  const served = { certFile: path.join(folder, 'served.crt'), keyFile: path.join(folder, 'served.key') };
  const put = ({ certFile, keyFile }: MadeCertificate) => {
    copyFileSync(keyFile, served.keyFile);
    copyFileSync(certFile, served.certFile);
  };
  let first: MadeCertificate;
  let second: MadeCertificate;
  let service: RunningService;
  beforeAll(async () => {
    // The first has an RSA key, the second one of P-256.
    first = makeCertificate(folder, 'first', { key: ['-newkey', 'rsa:2048'] });
    second = makeCertificate(folder, 'second', { days: 9 });
    put(first);
    service = await startService({
      ...tlsOf(served),
      ...{ METRICS_ADDR: '127.0.0.1:0', GRPC_PORT: '0', WORKER_THREADS: '0' },
    });
  });
  afterAll(async () => expect(await service.stop()).toBe(0));

  const curl = async (url: string, ca: MadeCertificate, ...more: string[]) =>
    (await run('curl', ['--silent', '--show-error', '--cacert', ca.certFile, ...more, url])).stdout;
  const subjectNow = async () => {
    const socket = connect({ port: service.port, host: '127.0.0.1', rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    const subject = String(socket.getPeerCertificate().subject.CN);
    socket.destroy();
    return subject;
  };
  const hangUp = async (lines: number) => {
    service.child.kill('SIGHUP');
    await eventually(() => expect(reloads()).toHaveLength(lines));
  };
  const reloads = () =>
    service.log.filter(({ msg }) => /the certificate (was|could not be) reloaded/.test(String(msg)));
  const metrics = async (ca: MadeCertificate) => {
    const { metricsUrl } = service.log.find(({ msg }) => msg === 'listening') as { metricsUrl: string };
    expect(metricsUrl).toMatch(/^https:/);
    return curl(metricsUrl, ca);
  };

  it('serves clients that check the certificate, and says so', async () => {
    expect(service.url).toMatch(/^https:/);
    expect(await curl(`${service.url}/healthz`, first)).toBe('{"status":"ok"}');
    const file = path.join(folder, 'bundle.json');
    writeFileSync(file, JSON.stringify(makeBundle(2)));
    const verdict = await curl(`${service.url}/verify`, first, '--data-binary', `@${file}`);
    expect(JSON.parse(verdict)).toMatchObject({ valid: true });
    // A body of many TLS records.
    const large = path.join(folder, 'large');
    writeFileSync(large, 'x'.repeat(900_000));
    const refused = await curl(
      `${service.url}/verify`,
      first,
      '--data-binary',
      `@${large}`,
      '-w',
      '%{http_code}',
    );
    expect(refused).toMatch(/400$/);
    expect(await metrics(first)).toMatch(/drs_build_info/);
  });

  it('takes TLS 1.2 and 1.3, nothing older, and no HTTP in the clear', async () => {
    const versionOf = async (version: string) => {
      const weak = ['-cipher', 'DEFAULT@SECLEVEL=0', '-connect', `127.0.0.1:${service.port}`];
      const client = spawn('openssl', ['s_client', `-${version}`, ...weak], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let said = '';
      client.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
      await once(client, 'close');
      return /New, (\S+), Cipher is (?!\(NONE\))/.exec(said)?.[1] ?? null;
    };
    expect(await versionOf('tls1_3')).toBe('TLSv1.3');
    expect(await versionOf('tls1_2')).toBe('TLSv1.2');
    expect(await versionOf('tls1_1')).toBeNull();
    expect(await versionOf('tls1')).toBeNull();
    await expect(fetch(`http://127.0.0.1:${service.port}/healthz`)).rejects.toThrow();
  });

  it('does not renegotiate', async () => {
    const socket = connect({
      port: service.port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      maxVersion: 'TLSv1.2',
    });
    await once(socket, 'secureConnect');
    const outcome = await new Promise<string>((resolve) => {
      socket.on('error', () => resolve('refused'));
      socket.on('close', () => resolve('refused'));
      socket.renegotiate({}, (error) => resolve(error === null ? 'renegotiated' : 'refused'));
    });
    socket.destroy();
    expect(outcome).toBe('refused');
    expect(await curl(`${service.url}/healthz`, first)).toBe('{"status":"ok"}');
  });

  it('goes on with the old certificate where the new files cannot be served', async () => {
    writeFileSync(served.certFile, 'no certificate');
    await hangUp(1);
    copyFileSync(second.certFile, served.certFile);
    await hangUp(2);
    rmSync(served.keyFile);
    await hangUp(3);
    const said = reloads().map(({ level, err }) => [level, (err as { message: string }).message]);
    expect(said).toEqual([
      [50, expect.stringMatching(/TLS_CERT_FILE is ".*served\.crt": .*expected a certificate/)],
      [50, expect.stringMatching(/TLS_KEY_FILE is ".*": it is not the key of the certificate/)],
      [50, expect.stringMatching(/TLS_KEY_FILE is ".*": ENOENT/)],
    ]);
    expect(await subjectNow()).toBe('first');
  });

  /** Node 26 takes no address as the name of a TLS server, which the library would take it for. */
  const NAME = { 'grpc.ssl_target_name_override': 'localhost' };
  /** What gRPC's health service says to a client that trusts this certificate. */
  const healthOverGrpc = async (trusted: ChannelCredentials) => {
    const client = clientOf(HEALTH, grpcPortOf(service), NAME, trusted);
    try {
      return await callOnce(client, 'Check', {}, { deadline: Date.now() + 20_000 });
    } finally {
      client.close();
    }
  };
  const trusting = ({ certFile }: MadeCertificate) => credentials.createSsl(readFileSync(certFile));

  it('speaks TLS to gateways that ask over gRPC, and nothing else', async () => {
    expect(await healthOverGrpc(trusting(first))).toEqual({ status: 'SERVING' });
    await expect(healthOverGrpc(trusting(second))).rejects.toThrow();
    await expect(healthOverGrpc(credentials.createInsecure())).rejects.toThrow();
  });

  it('serves new files after SIGHUP, to new connections, and breaks none that is open', async () => {
    const openBefore = new https.Agent({ keepAlive: true, maxSockets: 1, ca: readFileSync(first.certFile) });
    const askBefore = () =>
      new Promise<{ status: number; socket: unknown }>((resolve, reject) => {
        https
          .get(`${service.url}/healthz`, { agent: openBefore }, (answer) => {
            answer.resume();
            // The agent may take the socket back before the end.
            const { statusCode = 0, socket } = answer;
            answer.on('end', () => resolve({ status: statusCode, socket }));
          })
          .on('error', reject);
      });
    const before = await askBefore();
    put(second);
    const expiry = async (ca: MadeCertificate) =>
      metricOf(await metrics(ca), 'drs_tls_certificate_expiry_timestamp_seconds');
    const now = Date.now() / 1000;
    expect(Math.abs((await expiry(first)) - now - 2 * 86_400)).toBeLessThan(600);
    await hangUp(4);
    const after = await askBefore();
    expect([before.status, after.status, after.socket === before.socket]).toEqual([200, 200, true]);
    openBefore.destroy();
    expect(reloads().at(-1)).toMatchObject({ level: 30, certFile: served.certFile });
    expect(await subjectNow()).toBe('second');
    expect(await healthOverGrpc(trusting(second))).toEqual({ status: 'SERVING' });
    await expect(healthOverGrpc(trusting(first))).rejects.toThrow();
    expect(Math.abs((await expiry(second)) - now - 9 * 86_400)).toBeLessThan(600);
    // And again, from the app that took over the port.
    put(first);
    await hangUp(5);
    expect(await subjectNow()).toBe('first');
  });

  it('closes a connection on which no handshake is finished', async () => {
    const silent = connectTcp(service.port, '127.0.0.1');
    const hello = connectTcp(service.port, '127.0.0.1');
    // Not `once`, which rejects where a byte comes as the service closes: then it resets the connection.
    const closed = Promise.all(
      [silent, hello].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
    );
    await Promise.all([once(silent, 'connect'), once(hello, 'connect')]);
    // The beginning of a ClientHello, one byte a second.
    const record = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    const timer = setInterval(() => hello.write(Buffer.from([record.shift() ?? 0])), 1000);
    hello.on('error', () => undefined);
    silent.on('error', () => undefined);
    silent.resume();
    hello.resume();
    await closed;
    clearInterval(timer);
    await eventually(async () => {
      const text = await metrics(first);
      expect(metricOf(text, 'drs_http_connections{listener="http"}')).toBeLessThan(5);
    });
  });

  it('serves a certificate with a key of Ed25519', async () => {
    const certificate = makeCertificate(folder, 'ed25519', { key: ['-newkey', 'ed25519'] });
    const other = await startServiceHere(tlsOf(certificate));
    expect(await curl(`${other.url}/readyz`, certificate)).toBe('{"status":"ready"}');
    await other.stop();
  });

  it.each(['uws', 'node'])('serves files with a byte order mark in front, with %s', async (frontEnd) => {
    const [certFile, keyFile] = ['marked.crt', 'marked.key'].map((name) => path.join(folder, name)) as [
      string,
      string,
    ];
    for (const [to, from] of [
      [certFile, second.certFile],
      [keyFile, second.keyFile],
    ] as const)
      writeFileSync(to, `\ufeff${readFileSync(from, 'utf8')}`, { mode: 0o600 });
    const other = await startServiceHere({ ...tlsOf({ certFile, keyFile }), FRONT_END: frontEnd });
    expect(await curl(`${other.url}/healthz`, second)).toBe('{"status":"ok"}');
    await other.stop();
  });

  it('does not start with files that cannot be served', async () => {
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:secp256k1'];
    const unknown = makeCertificate(folder, 'secp256k1', { key: curve });
    const large = makeCertificate(folder, 'ed448', { key: ['-newkey', 'ed448'] });
    const expired = makeExpiredCertificate(folder, 'expired');
    const weak = makeCertificate(folder, 'weak', { key: ['-newkey', 'rsa:512'] });
    const text = path.join(folder, 'text');
    writeFileSync(text, 'hush-hush');
    const encrypted = path.join(folder, 'encrypted.key');
    await run('openssl', ['pkey', '-in', first.keyFile, '-aes256', '-passout', 'pass:pw', '-out', encrypted]);
    const { certFile, keyFile } = first;
    for (const [env, says] of [
      [{ TLS_CERT_FILE: certFile }, /one of TLS_CERT_FILE and TLS_KEY_FILE is set, expected both/],
      [
        { TLS_CERT_FILE: path.join(folder, 'none'), TLS_KEY_FILE: keyFile },
        /TLS_CERT_FILE is ".*none": ENOENT/,
      ],
      [{ TLS_CERT_FILE: folder, TLS_KEY_FILE: keyFile }, /TLS_CERT_FILE is .*it is a directory/],
      [{ TLS_CERT_FILE: text, TLS_KEY_FILE: keyFile }, /TLS_CERT_FILE is .*in PEM that begins/],
      [{ TLS_CERT_FILE: certFile, TLS_KEY_FILE: text }, /TLS_KEY_FILE is .*expected its private key/],
      [{ TLS_CERT_FILE: certFile, TLS_KEY_FILE: encrypted }, /TLS_KEY_FILE is .*without a passphrase/],
      [{ TLS_CERT_FILE: certFile, TLS_KEY_FILE: second.keyFile }, /it is not the key of the certificate/],
      [tlsOf(expired), /the certificate expired on/],
      [tlsOf(unknown), /TLS_KEY_FILE is .*it is a key of secp256k1; .*P-256, P-384 or P-521/],
      [tlsOf(large), /TLS_KEY_FILE is .*it is a key of ed448;/],
      [tlsOf(weak), /TLS_CERT_FILE is .*key too small; expected/],
    ] as const) {
      const problems = problemsOf({ ...env }).join('\n');
      expect(problems).toMatch(says);
      expect(problems).not.toContain('hush-hush');
    }
    const { code, stderr } = await runToExit({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: text });
    expect([code, stderr]).toEqual([2, expect.stringMatching(/TLS_KEY_FILE is .*expected its private key/)]);
    expect(stderr).not.toContain('hush-hush');
  });
});
