import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readConfiguration, VARIABLES } from '../../src/service/configuration/configuration.js';
import { party } from '../support/chain.js';
import { needs } from '../support/programs.js';
import { CHART, DEFAULTS, releaseOf, type Manifest, type Values } from './chart.js';

const DEPLOY = fileURLToPath(new URL('../../deploy', import.meta.url));
const TEMPLATES = path.join(CHART, 'templates');

const REDIS = { redis: { enabled: true, url: 'redis://redis:6379' } };
/** Everything that can be switched on. */
const ALL: Values = {
  ...REDIS,
  existingSecret: 'drs',
  env: { TRUSTED_ROOTS: party().did, SERVER_IDENTITY: 'https://tools.example', LOG_LEVEL: 'warn' },
  grpc: { enabled: true },
  trustProxy: '1',
  tls: { secretName: 'drs-tls' },
  autoscaling: { enabled: true },
  serviceMonitor: { enabled: true },
  prometheusRule: { rules: readFileSync(path.join(DEPLOY, 'prometheus/drs-verify.rules.yml'), 'utf8') },
  extraVolumes: [
    { name: 'keys', secret: { secretName: 'drs-keys' } },
    { name: 'logs', emptyDir: {} },
  ],
  extraVolumeMounts: [
    { name: 'keys', mountPath: '/etc/drs-verify/keys', readOnly: true },
    { name: 'logs', mountPath: '/var/log/drs' },
  ],
};
const CASES: readonly [string, Values][] = [
  ['the defaults', {}],
  ['Redis by a secret', { redis: { enabled: true }, existingSecret: 'drs', replicas: 3 }],
  ['everything', ALL],
  ['little', { replay: { gate: false, verify: false }, networkPolicy: { enabled: false } }],
];

interface Container {
  readonly env: readonly { readonly name: string; readonly value?: string; readonly valueFrom?: object }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly { readonly name: string }[];
}
interface Spec {
  readonly replicas?: number;
  readonly strategy: object;
  readonly template: {
    readonly spec: {
      readonly containers: readonly [Container];
      readonly volumes?: readonly { name: string }[];
    };
  };
}

const find = (given: Values, kind: string): Manifest | undefined =>
  releaseOf(given).manifests.find((manifest) => manifest.kind === kind);
const specOf = (given: Values) => find(given, 'Deployment')?.['spec'] as Spec;
const podOf = (given: Values) => specOf(given).template.spec;
const envOf = (given: Values) =>
  Object.fromEntries(
    podOf(given).containers[0].env.map(({ name, value, valueFrom }) => [name, value ?? valueFrom]),
  );

it('uses all values, and no others', () => {
  const text = readdirSync(TEMPLATES)
    .map((file) => readFileSync(path.join(TEMPLATES, file), 'utf8'))
    .join('\n');
  const tops = new Set([...text.matchAll(/\.Values\.(\w+)/g)].map(([, name]) => name));
  expect([...tops].sort()).toEqual(Object.keys(DEFAULTS).sort());
});

describe('the values of the chart', needs('helm'), () => {
  it.each<[string, Values]>([
    ["at '/replicas': ", { replicas: 2 }],
    ["at '/autoscaling/enabled': ", { autoscaling: { enabled: true } }],
    ["at '/redis/url': ", { redis: { enabled: true } }],
    ["at '/replicas': ", { ...REDIS, replicas: 0 }],
    ["at '/replicas': ", { ...REDIS, replicas: '3' }],
    ["at '': ", { replica: 1 }],
    ["at '/redis': ", { redis: { enabled: true, url: 'redis://redis:6379', password: 'x' } }],
    ["invalid propertyName 'GATE_REPLAY'", { env: { GATE_REPLAY: 'memory' } }],
    ["invalid propertyName 'LISTEN'", { env: { LISTEN: 'unix:/run/drs.sock' } }],
    ["invalid propertyName 'REDIS_URL'", { env: { REDIS_URL: 'redis://other:6379' } }],
    ["at '/env/MAX_PENDING': ", { env: { MAX_PENDING: 12 } }],
  ])('are refused, "%s": %j', (problem, given) => {
    expect(() => releaseOf(given)).toThrow(problem);
  });
});

describe.each(CASES)('the chart with %s', needs('helm'), (_, given) => {
  it('makes objects with names, kinds and selectors that fit', () => {
    const { manifests } = releaseOf(given);
    const kinds = manifests.map(({ kind }) => kind);
    expect(new Set(kinds).size).toBe(kinds.length);
    for (const manifest of manifests)
      expect(manifest).toMatchObject({
        apiVersion: expect.stringMatching(/^[a-z0-9./]+$/) as string,
        metadata: { name: 'gate', labels: { 'app.kubernetes.io/name': 'drs-verify' } },
      });
    const selected = (find(given, 'Service')?.['spec'] as { selector: object }).selector;
    expect(specOf(given)).toMatchObject({
      selector: { matchLabels: selected },
      template: { metadata: { labels: selected } },
    });
  });

  it('sets each variable once, to values with which the service starts', () => {
    const names = podOf(given).containers[0].env.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !VARIABLES.includes(name))).toEqual([]);
    const secrets = {
      REDIS_URL: 'redis://:secret@redis:6379',
      DRS_ADMIN_TOKEN: 'a-token-of-thirty-two-characters',
    };
    const files = { TLS_CERT_FILE: '', TLS_KEY_FILE: '' };
    const plain = Object.entries(envOf(given)).filter(([, value]) => typeof value === 'string');
    const asked = Object.keys(envOf(given)).filter((name) => name in secrets);
    const env = {
      ...Object.fromEntries(asked.map((name) => [name, secrets[name as keyof typeof secrets]])),
      ...(Object.fromEntries(plain) as Record<string, string>),
      ...files,
    };
    expect(readConfiguration(env)).toMatchObject({ host: '0.0.0.0', port: 8080 });
  });

  it('mounts only volumes that exist, and opens the ports that the Service names', () => {
    const { containers, volumes = [] } = podOf(given);
    const [{ volumeMounts = [], ports }] = containers;
    expect(volumeMounts.map(({ name }) => name)).toEqual(volumes.map(({ name }) => name));
    const { ports: outside } = find(given, 'Service')?.['spec'] as { ports: { targetPort: string }[] };
    expect(outside.map(({ targetPort }) => targetPort)).toEqual(ports.map(({ name }) => name));
  });
});

describe('the chart', needs('helm'), () => {
  it('lets a signed call count once, whatever runs beside it', () => {
    expect(specOf({})).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
    expect(envOf({})).toMatchObject({ GATE_REPLAY: 'memory', REPLAY_PROTECTION: 'memory' });
    expect(envOf({})).not.toHaveProperty('REDIS_URL');
    const shared = { ...REDIS, replicas: 3 };
    expect(specOf(shared)).toMatchObject({ replicas: 3, strategy: { rollingUpdate: { maxUnavailable: 0 } } });
    expect(envOf(shared)).toMatchObject({
      ...{ GATE_REPLAY: 'redis', REPLAY_PROTECTION: 'redis', REVOCATION_STORE: 'redis' },
      REDIS_URL: 'redis://redis:6379',
    });
    const secret = { redis: { enabled: true }, existingSecret: 'drs' };
    expect(envOf(secret)['REDIS_URL']).toEqual({ secretKeyRef: { name: 'drs', key: 'redis-url' } });
    expect(envOf({ replay: { gate: false } })['GATE_REPLAY']).toBe('off');
    const own = { redis: { ...REDIS.redis, revocations: false } };
    expect(envOf(own)).not.toHaveProperty('REVOCATION_STORE');
  });

  it('has a disruption budget only where a pod can be spared', () => {
    const has = (given: Values) => find(given, 'PodDisruptionBudget') !== undefined;
    expect([
      has({}),
      has({ ...REDIS, replicas: 2 }),
      has({ ...REDIS, autoscaling: { enabled: true } }),
    ]).toEqual([false, true, true]);
  });

  it('runs where it is told to, and reads no variables of other Services', () => {
    expect(podOf({})).toMatchObject({
      enableServiceLinks: false,
      topologySpreadConstraints: ['topology.kubernetes.io/zone', 'kubernetes.io/hostname'].map(
        (topologyKey) => ({
          topologyKey,
          labelSelector: { matchLabels: { 'app.kubernetes.io/name': 'drs-verify' } },
        }),
      ),
    });
    const where = {
      imagePullSecrets: [{ name: 'registry' }],
      nodeSelector: { pool: 'gates' },
      tolerations: [{ key: 'gates', operator: 'Exists' }],
      affinity: { podAntiAffinity: {} },
    };
    expect(podOf(where)).toMatchObject(where);
    expect(podOf({})).not.toHaveProperty('affinity');
    expect(find({ ...REDIS, replicas: 8 }, 'PodDisruptionBudget')).toMatchObject({
      spec: { maxUnavailable: '25%' },
    });
  });

  it('opens gRPC to gateways', () => {
    expect(envOf(ALL)['GRPC_PORT']).toBe('9090');
    expect(podOf(ALL).containers[0].ports).toContainEqual({ name: 'grpc', containerPort: 9090 });
    expect(find(ALL, 'NetworkPolicy')).toMatchObject({
      spec: { ingress: ['http', 'grpc', 'metrics'].map((port) => ({ ports: [{ port }] })) },
    });
    expect(find(ALL, 'Service')).toMatchObject({
      spec: {
        ports: expect.arrayContaining([
          expect.objectContaining({ name: 'grpc', appProtocol: 'https' }),
        ]) as unknown,
      },
    });
    const clear = find({ grpc: { enabled: true } }, 'Service')?.['spec'] as { ports: object[] };
    expect(clear.ports.at(-1)).toMatchObject({ appProtocol: 'kubernetes.io/h2c' });
  });

  it('takes the alerts as they are', () => {
    const rules = readFileSync(path.join(DEPLOY, 'prometheus/drs-verify.rules.yml'), 'utf8');
    expect(find(ALL, 'PrometheusRule')?.['spec']).toEqual(parse(rules));
    expect(find({}, 'PrometheusRule')).toBeUndefined();
  });

  it('says in its notes what to know', () => {
    const notes = (given: Values) => releaseOf(given).notes;
    expect(notes({})).toMatch(/ONE POD: [^]*redis\.enabled/);
    expect(notes({})).toContain('WARNING: env.TRUSTED_ROOTS is not set');
    expect(notes({})).toContain('WARNING: env.SERVER_IDENTITY is not set');
    expect(notes({ replay: { gate: false } })).toContain('can be repeated');
    expect(notes(ALL)).not.toContain('WARNING');
    expect(notes(ALL)).toContain('recorded in Redis, for all pods');
    expect(notes(ALL)).toContain('https://gate.agents/verify');
    expect(notes(ALL)).toContain('gate.agents:9090');
  });

  it('probes endpoints that exist', () => {
    const probe = (endpoint: string, scheme: string) => ({
      httpGet: { path: endpoint, port: 'metrics', scheme },
    });
    const probes = (scheme: string) => ({
      startupProbe: probe('/healthz', scheme),
      livenessProbe: { ...probe('/healthz', scheme), failureThreshold: 4 },
      readinessProbe: probe('/readyz', scheme),
    });
    expect(podOf({}).containers[0]).toMatchObject(probes('HTTP'));
    expect(podOf(ALL).containers[0]).toMatchObject(probes('HTTPS'));
  });
});
