import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { CONTEXT_HEADERS } from '../../src/gate/context.js';

// Every recipe, also those for proxies that cannot be started here, keeps each rule of "What a recipe must do".
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const page = readFileSync(path.join(ROOT, 'docs/gateways.md'), 'utf8');

/** What shows that a rule is kept: texts of the recipe, or why the proxy keeps it by itself. */
type Evidence = readonly RegExp[] | string;

interface Recipe {
  readonly name: string;
  /** Its name in docs/gateways.md. */
  readonly title: string;
  readonly files: readonly string[];
  /** How the recipe says that it takes a header off the caller's request, or sets another value. */
  readonly takesOff: (header: string, text: string) => boolean;
  /** Headers that the proxy itself takes off or sets, and why. */
  readonly own: Readonly<Record<string, string>>;
  readonly only200: Evidence;
  readonly path: Evidence;
  readonly limits: Evidence;
  readonly names: Evidence;
}

const listed = (header: string, text: string) =>
  new RegExp(`^\\s*- (?:remove: )?${header}$`, 'im').test(text);
const HEADERS = {
  method: ['x-original-method', 'x-forwarded-method'],
  path: ['x-original-uri', 'x-forwarded-uri', 'x-original-url'],
  overrides: [
    'x-http-method-override',
    'x-http-method',
    'x-method-override',
    'x-original-url',
    'x-rewrite-url',
    'upgrade',
  ],
  address: ['x-forwarded-for', 'forwarded', 'x-real-ip'],
  bundle: ['x-drs-bundle'],
};
const ENVOY_UPGRADE = { upgrade: 'without upgrade_configs, Envoy answers 403' };
const GRPC_SETS = Object.fromEntries(
  CONTEXT_HEADERS.map((name) => [name.toLowerCase(), 'the answer over gRPC sets or removes it']),
);
const ENVOY = {
  takesOff: (header: string, text: string) =>
    listed(header, text) ||
    new RegExp(`- \\{ exact: ${header}, ignore_case: true \\}`).test(
      text.split('allowed_upstream_headers')[1] ?? '',
    ),
  only200: [/failure_mode_allow: false/, /allow_partial_message: false/],
  path: [
    /safe_regex: \{ regex: '\/mcp\|/,
    /normalize_path: true/,
    /merge_slashes: true/,
    /path_with_escaped_slashes_action: REJECT_REQUEST/,
  ],
  limits: [/max_request_headers_kb: 96/, /max_request_bytes: 1048576/],
  names: [/headers_with_underscores_action: REJECT_REQUEST/],
} as const;
const AGENTGATEWAY = {
  takesOff: (header: string, text: string) =>
    listed(header, text.split('requestHeaderModifier')[1] ?? '') ||
    new RegExp(`^\\s*${header}: (?:source\\.address|extauthz\\.\\w+)$`, 'm').test(text),
  only200: [/failureMode: \{ denyWithStatus: 503 \}/, /allowPartialMessage: false/],
  path: [/matches:\s+- path: \{ exact: \/mcp \}/],
  limits: [/maxRequestBytes: 1048576/],
  names: 'agentgateway has no setting for it: the page says so',
} as const;
const BY_GUARD = 'the guard behind it reads, replaces or removes it';

const RECIPES: readonly Recipe[] = [
  {
    name: 'nginx',
    title: 'nginx',
    files: ['nginx/nginx.conf', 'nginx/drs.js'],
    takesOff: (header, text) =>
      new RegExp(`^\\s*proxy_set_header ${header} (?:""|\\$drs_\\w+|\\$remote_addr);$`, 'im').test(
        text.split('location @tools')[1] ?? '',
      ),
    own: { upgrade: 'nginx forwards none unless told' },
    only200: [/reply\.status === 200/],
    path: [/location ~ \^\(\?:\/mcp\|/, /if \(\$request_uri != \$uri\)/, /location \/ \{\s+return 404/],
    limits: [/large_client_header_buffers 4 64k/, /client_max_body_size 1m/],
    names: [/underscores_in_headers off/, /ignore_invalid_headers on/],
  },
  {
    name: 'haproxy',
    title: 'HAProxy',
    files: ['haproxy/haproxy.cfg', 'haproxy/drs.lua'],
    takesOff: (header, text) =>
      text.includes(`set-header ${header} %[src]`) ||
      text.includes(`del-header ${header}\n`) ||
      [...text.matchAll(/del-header (\S+) -m reg/g)].some(([, pattern = '']) =>
        new RegExp(pattern).test(header),
      ),
    own: {},
    only200: [/return status 503 .* unless \{ var\(txn\.drs\) -m str allowed \}/],
    path: [/return status 404 unless \{ pathq -m str \/mcp /],
    limits: [/tune\.bufsize 1179648/, /MAX_BODY_BYTES = 1048576/],
    names: [/del-header \[\^A-Za-z0-9-\] -m reg/],
  },
  { ...ENVOY, name: 'envoy', title: 'Envoy', files: ['envoy/envoy.yaml'], own: ENVOY_UPGRADE },
  {
    ...ENVOY,
    name: 'envoy over gRPC',
    title: 'Envoy over gRPC',
    files: ['envoy/envoy-grpc.yaml'],
    own: { ...ENVOY_UPGRADE, ...GRPC_SETS },
  },
  {
    name: 'envoy-gateway',
    title: 'Envoy Gateway',
    files: ['envoy-gateway/drs.yaml'],
    takesOff: listed,
    own: ENVOY_UPGRADE,
    only200: [/failOpen: false/],
    path: [/path: \{ type: Exact, value: \/mcp \}/, /escapedSlashesAction: RejectRequest/],
    limits: [/maxRequestHeaderLimit: 96Ki/, /maxRequestBytes: 1048576/, /bufferLimit: 1Mi/],
    names: [/withUnderscoresAction: RejectRequest/],
  },
  {
    ...AGENTGATEWAY,
    name: 'agentgateway',
    title: 'agentgateway',
    files: ['agentgateway/config.yaml'],
    own: { upgrade: 'it is shown to the gate, which refuses' },
  },
  {
    ...AGENTGATEWAY,
    name: 'agentgateway over gRPC',
    title: 'agentgateway over gRPC',
    files: ['agentgateway/config-grpc.yaml'],
    own: { upgrade: 'it is shown to the gate, which refuses', ...GRPC_SETS },
  },
  {
    name: 'traefik',
    title: 'Traefik',
    files: ['traefik/drs.yaml', 'traefik/traefik.yaml'],
    takesOff: (header, text) =>
      new RegExp(`^\\s*${header}: ''$`, 'im').test(text) ||
      listed(header, text.split('authResponseHeaders')[1] ?? ''),
    own: {
      'x-forwarded-for': 'without a trusted address, Traefik says what it has seen',
      'x-real-ip': 'without a trusted address, Traefik says what it has seen',
      'x-forwarded-method': 'without a trusted address, Traefik takes it off',
      'x-forwarded-uri': 'without a trusted address, Traefik takes it off',
    },
    only200: [/forwardBody: true/, /trustForwardHeader: false/, /insecure: false/],
    path: [/rule: PathRegexp\(`\^\/\(\?:mcp\|/],
    limits: [/maxHeaderBytes: 98304/, /maxBodySize: 1048576/],
    names: [/underscoreHeadersStrategy: delete/],
  },
  {
    name: 'apisix',
    title: 'APISIX',
    files: ['apisix/apisix.yaml', 'apisix/config.yaml'],
    takesOff: (header, text) =>
      listed(header, text.split('remove:')[1]?.split('forward-auth:')[0] ?? '') ||
      listed(header, text.split('upstream_headers:')[1]?.split('client_headers:')[0] ?? '') ||
      new RegExp(`set_header\\(ctx, "${header}", nil\\)`, 'i').test(text),
    own: {
      'x-real-ip': 'APISIX sets it to the address of the connection',
    },
    only200: [/allow_degradation: false/, /request_method: POST/],
    path: [/uris: \[\/mcp, /],
    limits: [/max_req_body_size: 1048576/, /large_client_header_buffers 4 64k/, /client_max_body_size: 1m/],
    names: [/underscores_in_headers: 'off'/],
  },
  {
    name: 'caddy',
    title: 'Caddy',
    files: ['caddy/Caddyfile'],
    takesOff: (header, text) => new RegExp(`^\\s*request_header -${header}$`, 'im').test(text),
    own: {
      'x-forwarded-for': 'without trusted_proxies, Caddy says what it has seen',
      ...Object.fromEntries(
        [...Object.values(HEADERS).flat(), ...CONTEXT_HEADERS]
          .map((name) => name.toLowerCase())
          .filter((name) => !['x-forwarded-for', 'forwarded', 'x-real-ip', 'upgrade'].includes(name))
          .map((name) => [name, BY_GUARD]),
      ),
    },
    only200: 'the guard is the proxy of the tool server',
    path: 'the guard forwards the path of --to alone',
    limits: [/max_header_size 64KB/],
    names: 'node:http of the guard answers 400 to others',
  },
];

const textOf = ({ files }: Recipe) =>
  files
    .map((file) => readFileSync(path.join(ROOT, 'deploy/gateways', file), 'utf8'))
    .join('\n')
    .replace(/(?:^|\s)(?:#|\/\/|--(?= )).*$/gm, '');

it('are all there is', () => {
  const folder = path.join(ROOT, 'deploy/gateways');
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
  expect(RECIPES.flatMap((recipe) => recipe.files).sort()).toEqual(files.sort());
});

describe.each(RECIPES)('the recipe for $name', (recipe) => {
  const text = textOf(recipe);
  const keeps = (evidence: Evidence) => {
    if (typeof evidence === 'string') expect(evidence.split(' ').length).toBeGreaterThan(4);
    else for (const one of evidence) expect(text).toMatch(one);
  };
  const replaced = (header: string) => recipe.takesOff(header, text) || recipe.own[header] !== undefined;

  it.each(Object.entries(HEADERS))('takes off what a caller says: %s', (_, headers) => {
    expect(headers.filter((header) => !replaced(header))).toEqual([]);
  });

  it('sets the context by the answer of the gate alone', () => {
    expect(CONTEXT_HEADERS.map((name) => name.toLowerCase()).filter((name) => !replaced(name))).toEqual([]);
  });

  it('says of no header twice what becomes of it', () => {
    expect(Object.keys(recipe.own).filter((header) => recipe.takesOff(header, text))).toEqual([]);
  });

  it('passes only what the gate allows, on its path, of its size, with plain names', () => {
    for (const evidence of [recipe.only200, recipe.path, recipe.limits, recipe.names]) keeps(evidence);
  });

  it('begins in docs/gateways.md with the line that starts the gate for it', () => {
    const item = page.split('\n').find((line) => line.startsWith(`- **${recipe.title}.**`)) ?? '';
    const isGrpc = recipe.name.endsWith('gRPC');
    expect(item).toMatch(
      recipe.name === 'caddy'
        ? /^- \*\*Caddy\.\*\* `DRS_TRUST_PROXY=1 npx drs-verify guard --trusted-root /
        : recipe.name === 'envoy-gateway'
          ? /^- \*\*Envoy Gateway\.\*\* `helm install .*trustProxy=1`/
          : isGrpc
            ? /\.\*\* `GRPC_PORT=9090 npx drs-verify serve`/
            : /\.\*\* `TRUST_PROXY=1 npx drs-verify serve`/,
    );
  });
});
