import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { deflateSync, gzipSync } from 'node:zlib';
import { Pool } from 'undici';
import type { Verifier, VerifierOptions } from 'drs-verify';
import { DrsClient } from 'drs-verify/client';
import { didOf, signWith } from '../generator/keys.js';
import type { Entry, Revocation, ServedList, Settings } from '../oracle.js';
import {
  comparableAnswer,
  httpText,
  libraryCall,
  revocationOf,
  type Request,
  type Revoked,
} from './request.js';

/** A kind of verifier: one in this process, or a service in a process of its own. */
export interface TargetKind {
  readonly name: string;
  readonly service: boolean;
  /** A service that is asked through `DrsClient`. */
  readonly client?: boolean;
  /** A service that is asked in batches: what is asked in one turn of the event loop goes together. */
  readonly batches?: boolean;
  readonly frontEnd?: 'uws' | 'node';
  readonly receiptCacheBytes?: number;
  readonly workerThreads: number;
}

const TINY = 20_000;

export const LIBRARIES: readonly TargetKind[] = [
  { name: 'library, no cache', service: false, receiptCacheBytes: 0, workerThreads: 0 },
  { name: 'library', service: false, workerThreads: 0 },
  { name: 'library, tiny cache', service: false, receiptCacheBytes: TINY, workerThreads: 0 },
  { name: 'library, thread', service: false, workerThreads: 1 },
  { name: 'library, thread, tiny cache', service: false, receiptCacheBytes: TINY, workerThreads: 1 },
];
export const SERVICES: readonly TargetKind[] = [
  { name: 'service', service: true, workerThreads: 1 },
  { name: 'service, tiny cache', service: true, receiptCacheBytes: TINY, workerThreads: 0 },
  { name: 'client', service: true, client: true, workerThreads: 0 },
  { name: 'service, batches', service: true, batches: true, workerThreads: 1 },
  {
    ...{ name: 'service, batches, node:http', service: true, batches: true },
    ...{ frontEnd: 'node', workerThreads: 0 },
  },
];

/** A verifier that is compared with the oracle. */
export interface Target {
  readonly kind: TargetKind;
  /** The verdict as one line of text, to be compared. */
  ask(request: Request): Promise<string>;
  revoke(target: Revoked): Promise<void>;
  close(): Promise<void>;
}

export type CreateVerifier = (options: VerifierOptions) => Verifier;

/** The settings of a verifier, and the list that it reads. */
export interface World {
  readonly name: string;
  readonly settings: Settings;
  readonly remote: Revocation['remote'];
  /** Lists of roots, by their names; each is served at the path of its name. */
  readonly lists?: Revocation['lists'];
}

/** Where targets run. */
export interface Surroundings {
  readonly listUrl: string | undefined;
  readonly createVerifier: CreateVerifier;
  readonly services: Services;
}

/** Opens a target. Close it, the services and the list host, when done. */
export async function openTarget(
  kind: TargetKind,
  world: World,
  { listUrl, createVerifier, services }: Surroundings,
): Promise<Target> {
  const cache = kind.receiptCacheBytes === undefined ? {} : { receiptCacheBytes: kind.receiptCacheBytes };
  // The list comes from this process, which may be busy for seconds.
  const list =
    listUrl === undefined
      ? {}
      : {
          statusListBaseUrl: listUrl,
          statusListForm: 'raw' as const,
          statusCacheTtlSecs: 86_400,
          statusFetchTimeoutMs: 10_000,
        };
  const { trustedRoots, tools, ...settings } = world.settings;
  const options = {
    ...settings,
    ...(trustedRoots !== undefined && { trustedRoots: trustedRoots.map((root) => servedBy(listUrl, root)) }),
    ...(tools !== undefined && { tools: [...tools] }),
    ...cache,
    ...list,
    workerThreads: kind.workerThreads,
    ...(kind.frontEnd === undefined ? {} : { frontEnd: kind.frontEnd }),
  };
  return kind.service
    ? openService(kind, withFile(options), services)
    : openLibrary(kind, createVerifier(options));
}

/** An entry whose lists are where this process serves them. */
function servedBy(listUrl: string | undefined, root: string | Entry): string | Entry {
  if (typeof root === 'string' || root.status_lists === undefined) return root;
  const lists = root.status_lists.map(({ uri, form }) => {
    return { uri: new URL(new URL(uri).pathname, listUrl).href, form, id: uri };
  });
  return { ...root, status_lists: lists, addresses: ['127.0.0.1'] };
}

/** The same options for a service, which reads entries from a file. */
function withFile({ trustedRoots, tools, ...options }: VerifierOptions): object {
  const roots = trustedRoots?.map((root) => (typeof root === 'string' ? { did: root } : root));
  return {
    ...options,
    ...(roots && { trustedRootsFile: fileOf(roots) }),
    ...(tools && { toolsFile: fileOf(tools) }),
  };
}

function fileOf(lines: readonly object[]): string {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const name = createHash('sha256').update(text).digest('hex').slice(0, 16);
  const file = path.join(tmpdir(), `drs-differential-${name}.jsonl`);
  writeFileSync(file, text);
  return file;
}

function openLibrary(kind: TargetKind, verifier: Verifier): Target {
  return {
    kind,
    async ask(request) {
      const [bundle, options] = libraryCall(request);
      try {
        const verdict = await verifier.verify(bundle, options);
        const line = comparableAnswer(verdict);
        // A caller that changes a verdict must not change a later one.
        if (verdict.valid) scribble(verdict.context.leaf_policy);
        return line;
      } catch (error) {
        return `threw ${String(error)}`;
      }
    },
    revoke: (target) => verifier.revoke(revocationOf(target)),
    close: () => verifier.close(),
  };
}

function scribble(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  for (const item of Object.values(value)) scribble(item);
  const target = value as Record<string, unknown>;
  if (Array.isArray(value)) value.push('*');
  else for (const name of Object.keys(target)) target[name] = 10;
}

const TOKEN = 'differential-admin-token';

/** The processes of services. */
export class Services {
  readonly #running = new Map<string, Promise<Running>>();
  readonly #areShared: boolean;

  /** @param areShared whether targets with the same options share a process. What one finds may then depend on the other. */
  constructor(areShared = false) {
    this.#areShared = areShared;
  }

  /** The address of a service with these options. */
  async urlOf({ name }: TargetKind, options: object): Promise<string> {
    const key = JSON.stringify(this.#areShared ? options : [name, options]);
    const running = this.#running.get(key) ?? startService(options);
    this.#running.set(key, running);
    return (await running).url;
  }

  async close(): Promise<void> {
    for (const running of this.#running.values()) await (await running).stop();
  }
}

interface Running {
  readonly url: string;
  stop(): Promise<void>;
}

async function startService(options: object): Promise<Running> {
  const env = Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase(),
      value === true ? '1' : String(value),
    ]),
  );
  const child = spawn(process.execPath, ['dist/cli/main.js', 'serve'], {
    env: {
      PATH: process.env['PATH'] ?? '',
      PORT: '0',
      DRS_ADMIN_TOKEN: TOKEN,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (text) => {
      const entry = JSON.parse(text) as { msg?: string; url?: string };
      if (entry.msg === 'listening') resolve(entry.url ?? '');
    });
    void exited.then(() => reject(new Error(`the service ended: ${errors}`)));
  });
  return {
    url,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function openService(kind: TargetKind, options: object, services: Services): Promise<Target> {
  const url = await services.urlOf(kind, options);
  const pool = new Pool(url, { connections: 8, keepAliveTimeout: 3_000 });
  const client = kind.client === true ? new DrsClient(url, { timeoutMs: 60_000 }) : null;
  const post = (path: string, body: string, headers: Record<string, string> = {}) =>
    postOnce(path, body, headers).catch((error: unknown) => {
      // The service closes idle connections. A request on such a connection was not handled, so send it again.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'UND_ERR_SOCKET' && code !== 'ECONNRESET') throw error;
      return postOnce(path, body, headers);
    });
  const postOnce = async (path: string, body: string, headers: Record<string, string>) => {
    const answer = await pool.request({
      method: 'POST',
      path,
      body,
      headers: { 'content-type': 'application/json', ...headers },
    });
    return { status: answer.statusCode, text: await answer.body.text() };
  };
  const batches = new Batches(async (body) => {
    const { status, text } = await post('/verify', body, { 'content-type': 'application/x-ndjson' });
    if (status !== 200) throw new Error(`a batch was answered ${status} ${text}`);
    return text;
  });
  return {
    kind,
    async ask(request) {
      if (client !== null) {
        const [bundle, { body, bodyText }] = libraryCall(request);
        const call = { ...(body !== undefined && { body }), ...(bodyText !== undefined && { bodyText }) };
        const verify = () => client.verify(bundle, call);
        return verify()
          .catch((error: unknown) => {
            // The service has closed an idle connection, as above.
            if ((error as { code?: string }).code !== 'interrupted') throw error;
            return verify();
          })
          .then(comparableAnswer, (error: unknown) => `threw ${String(error)}`);
      }
      if (kind.batches === true) return batches.ask(httpText(request));
      const { status, text } = await post('/verify', httpText(request));
      return status === 200 ? comparableAnswer(JSON.parse(text)) : `status ${status}`;
    },
    async revoke(target) {
      const body = JSON.stringify(revocationOf(target));
      const { status, text } = await post('/admin/revoke', body, { authorization: `Bearer ${TOKEN}` });
      if (status !== 200) throw new Error(`/admin/revoke answered ${status} ${text}`);
    },
    async close() {
      await client?.close();
      await pool.close();
    },
  };
}

/** Gathers what is asked in one turn of the event loop, and sends it as one batch, so that there are batches of every size. */
class Batches {
  readonly #post: (body: string) => Promise<string>;
  #waiting: { readonly line: string; readonly resolve: (answer: Promise<string>) => void }[] = [];

  constructor(post: (body: string) => Promise<string>) {
    this.#post = post;
  }

  ask(text: string): Promise<string> {
    if (this.#waiting.length === 0) setImmediate(() => this.#send());
    // Outside of strings, one white space is as good as another; in strings, neither is JSON.
    const line = text.replaceAll('\n', '\t');
    return new Promise((resolve) => this.#waiting.push({ line, resolve }));
  }

  #send(): void {
    const sent = this.#waiting;
    this.#waiting = [];
    const answers = this.#post(sent.map(({ line }) => line).join('\n')).then((text) => text.split('\n'));
    for (const [at, { resolve }] of sent.entries())
      resolve(
        answers.then((lines) => {
          // The last line ends with a line feed, too.
          if (lines.length !== sent.length + 1) return `${lines.length - 1} answers to ${sent.length} lines`;
          const answer = JSON.parse(lines[at] ?? '') as { readonly status?: number };
          return answer.status === undefined ? comparableAnswer(answer) : `status ${answer.status}`;
        }),
      );
  }
}

/** Serves the status lists of a world, or refuses to. */
export async function openListHost({
  remote,
  lists,
}: Pick<World, 'remote' | 'lists'>): Promise<{ url: string | undefined; close(): Promise<void> }> {
  if (remote === 'none') return { url: undefined, close: () => Promise.resolve() };
  const server = createServer(({ url }, response) => {
    const named = Object.entries(lists ?? {}).find(([name]) => new URL(name).pathname === url);
    if (named !== undefined && named[1] !== 'unavailable') response.end(signedList(named[0], named[1]));
    else if (named !== undefined) response.writeHead(500).end();
    else if (remote === 'unavailable') response.writeHead(500).end();
    else response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(remote);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/list`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A list of a root as a JWT by this root, whose number is in the name. */
function signedList(name: string, { bits, hex }: Exclude<ServedList, 'unavailable'>): string {
  const key = Number(new URL(name).pathname.split('/')[1]);
  const bytes = Buffer.from(hex, 'hex');
  const token = {
    ...{ sub: name, iat: 1_700_000_000 },
    status_list: { bits, lst: deflateSync(bytes).toString('base64url') },
  };
  const credential = {
    ...{ id: name, type: ['VerifiableCredential', 'BitstringStatusListCredential'], issuer: didOf(key) },
    credentialSubject: {
      ...{ type: 'BitstringStatusList', statusPurpose: 'revocation' },
      encodedList: `u${gzipSync(bytes).toString('base64url')}`,
    },
  };
  const segment = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const header = { alg: 'EdDSA', typ: bits === null ? 'vc+jwt' : 'statuslist+jwt' };
  const input = `${segment(header)}.${segment(bits === null ? credential : token)}`;
  return `${input}.${signWith(key, input).toString('base64url')}`;
}
