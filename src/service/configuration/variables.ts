import { Buffer } from 'node:buffer';
import { isOrigin as isPageOrigin } from '../../approval/approvers.js';
import { isPassMethod } from '../../gate/mcp.js';
import {
  count,
  flag,
  listOf,
  oneOf,
  parsed,
  text,
  type FilledOptions,
  type Option,
} from '../../protocol/options.js';
import { isLoopback } from '../../protocol/loopback.js';
import { PROXY_EXCEPTIONS, PROXY_URL } from '../../revocation/lists/proxy.js';
import { VERIFIER_OPTIONS } from '../../verifier/options.js';
import { decodeBase64url } from '#platform';
import { readProxyTrust } from '../http/client-address.js';
import { variableOf } from './environment.js';

/** What is known of an environment variable. The value of a secret can come from a file: `<NAME>_FILE`. Everything else is made from it: parsing, errors, help and documents. */
export interface Variable extends Option {
  /** What the variable means, in Markdown. The first sentence is its line in the help text. */
  readonly says: string;
  /** The default in words, if it depends on the machine or on another variable. */
  readonly defaultWords?: string;
  /** It is a URL, of which user, password and query are never printed. */
  readonly isUrl?: true;
  /** Only `drs-verify serve` reads it; `drs-verify guard` refuses it. */
  readonly isOfServe?: true;
  /** Other programs read it too, also in small letters: it counts only where there is a status list. */
  readonly isShared?: true;
  /** The option without which it does nothing, or `redis`: a store in Redis. */
  readonly needs?: string;
  /** Unset it means that anybody is trusted, so that an empty one is refused: a template may lack a value. */
  readonly restrictsTrust?: true;
}

const MIB = 1024 * 1024;
/** How many of the largest bodies have room at least. */
export const BODIES_IN_MEMORY = 4;

const path = text('a path');
/** The seed of an Ed25519 key has 32 bytes. RFC 8032 §5.1.5 */
const isSigningSeed = (value: string) => decodeBase64url(value)?.length === 32;
/** As browsers send it. Pages of applications have schemes of their own, for which a URL says no origin: `tauri://localhost`. */
const isOrigin = (value: string) => {
  const { origin, protocol, host } = URL.canParse(value) ? new URL(value) : new URL('none:');
  return host !== '' && value === (origin === 'null' ? `${protocol}//${host}` : origin);
};
const isHook = (value: string) => {
  const { protocol, hostname } = URL.canParse(value) ? new URL(value) : new URL('none:');
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
};

/**
 * The host and the port of an address such as `127.0.0.1:9464` or `[::1]:9464`; `null` if the text is not an address.
 */
export function addressOf(value: string): { readonly host: string; readonly port: number } | null {
  const [, ipv6, name, digits] = /^(?:\[([\da-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(value) ?? [];
  const port = Number(digits);
  return port <= 65_535 ? { host: (ipv6 ?? name) as string, port } : null;
}

// `sun_path` of Linux has 108 bytes with a zero at the end. uSockets would write a longer path beyond its buffer.
const MAX_PATH_BYTES = 107;

/** Reads the path of a socket from a text such as `unix:/run/drs/verify.sock`. @returns `problem` says what is wrong with the text */
function unixPathOf(text: string): { readonly path: string } | { readonly problem: string } {
  const [, path] = /^unix:(\/.*[^/])$/s.exec(text) ?? [];
  if (path === undefined || path.includes('\0'))
    return { problem: 'expected unix: and an absolute path, such as unix:/run/drs/verify.sock' };
  const bytes = Buffer.byteLength(path);
  if (bytes <= MAX_PATH_BYTES) return { path };
  return { problem: `the path has ${bytes} bytes, expected at most ${MAX_PATH_BYTES}: choose a shorter one` };
}

/**
 * The variables of the service by the headings of docs/configuration.md, each by the name of its option. After a change,
 * run `node scripts/configuration-docs.mjs --write`, and say in docs/threat-model.md what an attacker gains.
 */
// prettier-ignore
export const SECTIONS = {
  'Address and log': {
    host: { kind: text('an address or a host name'), default: '127.0.0.1',
      says: 'Address to listen on. With any but a loopback address, other machines can ask.' },
    port: { kind: count(0, 65_535), default: 8080,
      says: 'Port to listen on. With 0 the service chooses a free port and logs it.' },
    listen: { kind: parsed('`unix:` and an absolute path, such as `unix:/run/drs/verify.sock`', unixPathOf), isOfServe: true,
      says: '[Unix socket](operations.md#unix-sockets) to listen on instead of `HOST` and `PORT`.' },
    listenMode: { kind: text('three octal digits, such as `660`', (mode) => /^0?[0-7]{3}$/.test(mode)), default: '660', isOfServe: true, needs: 'listen',
      says: 'Permissions of the socket: users who may write to it can call.' },
    tlsCertFile: { kind: path,
      says: 'PEM file with a certificate and its chain. With it, only [TLS](operations.md#tls) is accepted.' },
    tlsKeyFile: { kind: path,
      says: 'PEM file with its private key, without a passphrase.' },
    sharePort: { kind: flag, default: false, isOfServe: true,
      says: 'With `1`, [several instances](scaling.md#several-instances-on-one-port) of the same user listen on the port.' },
    frontEnd: { kind: oneOf('auto', 'uws', 'node'), default: 'auto', isOfServe: true,
      says: '[The HTTP library](operations.md#which-front-end): `auto`: uWebSockets.js (`uws`) if it loads, else `node:http` (`node`).' },
    logLevel: { kind: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'), default: 'info',
      says: 'The least severe message that is logged on standard output.' },
    logRefusals: { kind: oneOf('all', 'sampled', 'off'), default: 'sampled',
      says: 'Which [refusals](observability.md#refusals) are logged; `sampled`: 10 in a second, and the number of others.' },
    decisionLog: { kind: text('a path, or `-`'),
      says: 'Regular file for [one JSON line about each verdict and decision](observability.md#the-decision-log), or `-` for standard output.' },
    logStatements: { kind: flag, default: true, needs: 'decisionLog',
      says: 'With `0`, the decision log has no arguments of calls that a person [approved](observability.md#what-is-kept-of-a-yes), but their digest.' },
    decisionLogKey: { kind: text('32 bytes in base64url, such as the member `d` of a file by `drs-verify keygen`', isSigningSeed), isSecret: true, needs: 'decisionLog',
      says: 'Ed25519 seed with which the decision log is [sealed](spec/log.md#a-sealed-log): what is changed, removed or added later is found.' },
    decisionLogBundles: { kind: flag, default: false, needs: 'decisionLog',
      says: 'With `1`, lines have the bundle of their call, **with all its arguments**, up to 64 KiB.' },
    metricsAddr: { kind: text('an address and a port, such as `127.0.0.1:9464` or `[::1]:9464`', (at) => addressOf(at) !== null), isOfServe: true,
      says: 'Another address for `/metrics`, then not on `PORT`, and for `/healthz` and `/readyz`, on both.' },
    adminOnMetricsAddr: { kind: flag, default: false, isOfServe: true,
      says: 'With `1`, `/admin/…` is served on `METRICS_ADDR` only.' },
  },
  'Who may ask, and how much': {
    allowedOrigins: { kind: listOf(text('an origin such as `https://app.example`', isOrigin)),
      says: 'Origins of web pages that may call, also of applications (`tauri://localhost`). Others get 403.' },
    rateLimitPerIp: { kind: count(0, undefined, 'requests per second'), default: 0,
      says: '[Requests per second](spec/http.md#rate-limits) for each client; 0 is no limit.' },
    rateLimitGlobal: { kind: count(0, undefined, 'requests per second'), default: 0,
      says: 'The same for all clients together.' },
    trustProxy: { kind: parsed('`1` to `16`, or a list of addresses, networks and `unix`', readProxyTrust),
      says: '[Proxies whose `X-Forwarded-For` is trusted](operations.md#behind-a-proxy): their number, or who they are. Unset: none.' },
    maxBodyBytes: { kind: count(1, 256 * MIB, 'bytes'), default: MIB,
      says: 'Size of the largest body that `/verify` accepts.' },
    maxChainDepth: { ...VERIFIER_OPTIONS.maxChainDepth,
      says: 'Maximum number of receipts in a bundle.' },
    maxConnections: { kind: count(1), defaultWords: 'what the limit of open files allows',
      says: 'Maximum number of [connections](operations.md#capacity), without those on `METRICS_ADDR`.' },
    requestTimeoutSecs: { kind: count(1, 3600, 'seconds'), default: 10,
      says: 'Seconds within which a whole body must arrive; otherwise the answer is 408.' },
  },
  Load: {
    workerThreads: { ...VERIFIER_OPTIONS.workerThreads, defaultWords: 'cores − 1',
      says: 'Threads that verify signatures. With 0 the main thread does.' },
    maxPending: { kind: count(1), default: 4096,
      says: 'Maximum number of requests that wait for a verdict; above it: 503.' },
    maxBodyMemory: { kind: count(1024, undefined, 'bytes'), defaultWords: '128 MiB, or 4 × `MAX_BODY_BYTES` if that is more',
      default: ({ maxBodyBytes }) => Math.max(128 * MIB, BODIES_IN_MEMORY * Number(maxBodyBytes)),
      says: 'Bytes of memory for bodies and their parsed form; above it: 503. At least 4 × `MAX_BODY_BYTES`.' },
    receiptCacheBytes: { ...VERIFIER_OPTIONS.receiptCacheBytes,
      says: 'Bytes of memory for verified receipts; 0 switches the cache off.' },
    busyPollMicrosecs: { kind: count(0, 100_000, 'microseconds'), default: 200, isOfServe: true,
      says: 'Microseconds after its last answer in which the service looks for the next request without sleeping.' },
  },
  'What is accepted': {
    trustedRoots: { ...VERIFIER_OPTIONS.trustedRoots, restrictsTrust: true,
      says: 'Accept only chains whose first issuer is one of these DIDs. Unset, anybody can be the root principal: the caller must check `root_principal`.' },
    trustedRootsFile: { ...VERIFIER_OPTIONS.trustedRootsFile, restrictsTrust: true,
      says: '[File of the trusted root principals](trust.md), or a directory of such files, instead of `TRUSTED_ROOTS`. Read again when it changes.' },
    toolsFile: { ...VERIFIER_OPTIONS.toolsFile, restrictsTrust: true,
      says: '[File of what tools do](spec/tools.md), or a directory of such files: what they cost, whether they write, what they read. It counts in place of what calls state.' },
    unstatedArguments: { ...VERIFIER_OPTIONS.unstatedArguments,
      says: 'What becomes of a call that does not state what a receipt limits: `refuse`, or `allow`: **such limits then hold only for calls that state it.**' },
    serverIdentity: { ...VERIFIER_OPTIONS.serverIdentity, restrictsTrust: true,
      says: 'Accept only invocations whose `tool_server` is this text; `any`: accept all. Unset, `/verify` accepts all, and the gate none.' },
    requireBinding: { ...VERIFIER_OPTIONS.requireBinding,
      says: 'With `1`, a request without a `body`, or with another body than the signed one, is not valid. For callers that read only `valid`.' },
    clockSkewSecs: { ...VERIFIER_OPTIONS.clockSkewSecs,
      says: 'Seconds by which the clock of whoever issues receipts, invocations or status lists may be ahead.' },
    expiryGraceSecs: { ...VERIFIER_OPTIONS.expiryGraceSecs,
      says: 'Seconds for which a receipt can be used after its `exp`.' },
  },
  Revocation: {
    drsAdminToken: { kind: text('at least 8 characters of printable ASCII, without white space', (token) => /^[!-~]{8,}$/.test(token)), isSecret: true, isOfServe: true,
      says: 'Bearer token of `/admin/…`. Unset, these endpoints are off.' },
    revocationStore: { ...VERIFIER_OPTIONS.revocationStore, defaultWords: '`file` if `REVOCATION_STORE_PATH` is set, else `memory`',
      says: 'Where local revocations are kept. `memory`: lost on restart. `file`: in `REVOCATION_STORE_PATH`. `redis`: [shared by all instances](scaling.md#revocations-in-redis).' },
    revocationStorePath: { ...VERIFIER_OPTIONS.revocationStorePath,
      says: '[File](spec/revocation.md#the-file) of local revocations. One process at a time can use it.' },
    revocationMaxEntries: { ...VERIFIER_OPTIONS.revocationMaxEntries,
      says: 'Maximum number of local revocations, about 200 bytes each.' },
    revocationMinReplicas: { ...VERIFIER_OPTIONS.revocationMinReplicas,
      says: 'Redis replicas that must have a revocation before it is acknowledged. At least 1 if a replica can become the primary.' },
    statusListBaseUrl: { ...VERIFIER_OPTIONS.statusListBaseUrl, isUrl: true,
      says: 'URL of the W3C Bitstring Status List. Unset, only the local store revokes.' },
    statusListIssuer: { ...VERIFIER_OPTIONS.statusListIssuer, restrictsTrust: true,
      says: 'Accept only lists that this did:key signed.' },
    statusListForm: { ...VERIFIER_OPTIONS.statusListForm, needs: 'statusListBaseUrl',
      says: '[What the list is](spec/revocation.md#forms). Any bytes can be read as `raw` bits, and no issuer can sign them.' },
    statusListId: { ...VERIFIER_OPTIONS.statusListId, restrictsTrust: true, needs: 'statusListBaseUrl', defaultWords: 'the URL of the list',
      says: 'The `id` that [the list](spec/revocation.md#forms) must have. `any`: any or none, for mirrors: also another list of the same issuer.' },
    statusCacheTtlSecs: { ...VERIFIER_OPTIONS.statusCacheTtlSecs,
      says: 'Seconds for which a fetched list is used, and a revocation in it may go unnoticed.' },
    statusMaxStaleSecs: { ...VERIFIER_OPTIONS.statusMaxStaleSecs, needs: 'statusListBaseUrl',
      says: 'Seconds for which an expired list is still used while a new one cannot be fetched.' },
    statusFetchTimeoutMs: { ...VERIFIER_OPTIONS.statusFetchTimeoutMs,
      says: 'Milliseconds that a verification without a usable copy waits for a list; then it is refused.' },
    httpProxy: { kind: PROXY_URL, isUrl: true, isShared: true,
      says: '[Proxy](operations.md#proxies-on-the-way-out) through which a list at `http` is fetched, also as `http_proxy`.' },
    httpsProxy: { kind: PROXY_URL, isUrl: true, isShared: true, defaultWords: '`HTTP_PROXY`',
      says: 'The same of a list at `https`, also as `https_proxy`.' },
    noProxy: { kind: PROXY_EXCEPTIONS, isShared: true,
      says: 'What is fetched directly, also as `no_proxy`. This machine always is.' },
  },
  Replay: {
    replayProtection: { ...VERIFIER_OPTIONS.replayProtection, isOfServe: true,
      says: 'Where `/verify` records used invocations. Unset, the caller must detect replays.' },
    replayWindowSecs: { ...VERIFIER_OPTIONS.replayWindowSecs,
      says: 'Seconds for which an invocation is fresh.' },
    replayMaxEntries: { ...VERIFIER_OPTIONS.replayMaxEntries,
      says: 'Maximum number of invocations on record with `memory`, about 300 bytes each; then calls are refused. You need calls per second × (window + 31 s).' },
    redisUrl: { ...VERIFIER_OPTIONS.redisUrl, isUrl: true, needs: 'redis',
      says: 'Where [Redis](scaling.md#set-up) is: one server, several of which the primary is used, or some nodes of a cluster.' },
    redisTimeoutMs: { ...VERIFIER_OPTIONS.redisTimeoutMs, needs: 'redis',
      says: 'Milliseconds that Redis has to answer a command; then the call is refused. After three timeouts in a row all are, until it answers.' },
    redisMayForget: { ...VERIFIER_OPTIONS.redisMayForget, needs: 'redis',
      says: 'With `1`, used invocations may be in a Redis with `appendonly no`: after its restart, calls from before are refused. Without it, such a Redis is.' },
    limitsAfterLoss: { ...VERIFIER_OPTIONS.limitsAfterLoss, needs: 'redis',
      says: 'What becomes of calls under receipts with limits from before [Redis may have lost](runbook.md#drsstorelost) counts: `refuse`, or `pass`: they are counted from what it still has.' },
    redisWaitReplicas: { ...VERIFIER_OPTIONS.redisWaitReplicas, needs: 'redis',
      says: 'Redis replicas that must have the charge of a limit before its call is allowed. Then limits go on [after a fail-over](spec/loss.md#what-it-does-not-find).' },
  },
  Gate: {
    gateReplay: { kind: oneOf('memory', 'redis', 'off'), default: 'memory',
      says: 'Where the gate records used invocations: `memory` (this process), `redis` (all instances), or `off`: an allowed call can be repeated.' },
    grpcPort: { kind: count(0, 65_535), isOfServe: true,
      says: 'Port on `HOST` for gateways that ask over [gRPC](gateways.md#grpc), which nobody else may reach. Unset, gRPC is off.' },
    grpcProtocol: { kind: oneOf('http', 'mcp', 'a2a'), default: 'mcp', isOfServe: true, needs: 'grpcPort',
      says: 'The protocol of a gRPC question if the gateway does not set `context_extensions.drs_protocol`.' },
    gatePassMethods: { kind: listOf(text('the name of a method such as `acme/search`, and not `tools/call`', isPassMethod)),
      says: 'MCP methods that pass unchecked, besides [those that always do](spec/gate.md#mcp-methods).' },
    gateMode: { kind: oneOf('enforce', 'observe'), default: 'enforce',
      says: 'With `observe`, the gate is [on trial](trial.md): what it would deny passes, and is recorded. **Nobody is protected.**' },
    gateRoutes: { kind: text('a path, or `any`'),
      says: 'File with the [routes](spec/gate.md#routes) of calls over `http`. Read again on SIGHUP. Unset, all are refused. `any`: only the body is compared, so a call that was signed for one path passes on every other.' },
    approvalsUrl: { kind: text('an origin such as `https://approve.example`, or `http://localhost` with a port', isPageOrigin),
      says: 'Origin of the [page on which persons say yes](spec/approval.md#the-page) to calls that need one. Unset, such calls are refused.' },
    approvalsOpenSecs: { kind: count(60, 604_800, 'seconds'), default: 86_400, needs: 'approvalsUrl',
      says: 'Seconds for which a person is asked about a call.' },
    approvalsWebhook: { kind: text('a URL with `https:`, or with `http:` of this machine', isHook), isSecret: true, needs: 'approvalsUrl',
      says: '[Where a POST says](spec/approval.md#webhook) that a person is asked.' },
    gateSigningKey: { kind: text('32 bytes in base64url, such as the member `d` of a file by `drs-verify keygen`', isSigningSeed), isSecret: true,
      says: 'Ed25519 seed that signs the context of allowed calls as [`X-DRS-Context`](gateways.md#signed-context). Unset, contexts are not signed.' },
  },
  'Readiness and shutdown': {
    readyWithout: { kind: listOf(oneOf('stale_list', 'list', 'revocations', 'replay', 'none')), default: () => ['stale_list'], defaultWords: '`stale_list`', isOfServe: true,
      says: 'What may be missing while [`/readyz`](spec/http.md#get-readyz) answers 200. Calls that need it are refused.' },
    shutdownDelaySecs: { kind: count(0, 3600, 'seconds'), default: 0, isOfServe: true,
      says: 'Seconds between the signal to stop and the drain. Meanwhile only `/readyz` fails: more than your balancer needs to notice.' },
    shutdownGraceSecs: { kind: count(1, 3600, 'seconds'), default: 10,
      says: 'Seconds within which requests in flight must be answered before the process ends.' },
  },
} satisfies Record<string, Record<string, Variable>>;

type Intersection<U> = (U extends unknown ? (rows: U) => void : never) extends (rows: infer I) => void
  ? I
  : never;
type Rows = Intersection<(typeof SECTIONS)[keyof typeof SECTIONS]>;
export type Configuration = FilledOptions<Rows>;

export const OPTIONS: ReadonlyMap<string, Variable> = new Map(
  Object.values(SECTIONS).flatMap((rows) => Object.entries<Variable>(rows)),
);

/** The options whose values are secrets, and can come from files. */
export const SECRETS = [...OPTIONS].filter(([, { isSecret }]) => isSecret).map(([name]) => name);

/** The names of variables that other programs read, too. */
export const SHARED: readonly string[] = [...OPTIONS]
  .filter(([, { isShared }]) => isShared)
  .flatMap(([name]) => [variableOf(name), variableOf(name).toLowerCase()]);

export const VARIABLES: readonly string[] = [
  ...[...OPTIONS.keys()].map(variableOf),
  ...SECRETS.map((name) => `${variableOf(name)}_FILE`),
];
