import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, parseAllDocuments } from 'yaml';

/** The chart, as Helm renders it. */
export const CHART = fileURLToPath(new URL('../../deploy/helm/drs-verify/', import.meta.url));

/** Values of the chart. */
export type Values = Record<string, unknown>;

/** A Kubernetes object. */
export type Manifest = Readonly<Record<string, unknown>> & { readonly kind: string };

/** What Helm makes of the chart. */
export interface Release {
  readonly manifests: readonly Manifest[];
  readonly notes: string;
}

export const DEFAULTS = parse(readFileSync(path.join(CHART, 'values.yaml'), 'utf8')) as Values;

const releases = new Map<string, Release>();

/** Installs the chart without a cluster: nothing is sent anywhere. @throws Error with what Helm says of values that it refuses */
export function releaseOf(given: Values = {}): Release {
  const values = JSON.stringify(given);
  const known = releases.get(values);
  if (known !== undefined) return known;
  const args = ['install', 'gate', CHART, '--namespace', 'agents', '--dry-run=client', '--values', '-'];
  const text = execFileSync('helm', args, { input: values, encoding: 'utf8', stdio: 'pipe' });
  const [, manifest = '', notes = ''] = /^MANIFEST:\n([^]*?)^NOTES:\n([^]*)$/m.exec(text) ?? [];
  const manifests = parseAllDocuments(manifest, { uniqueKeys: true }).flatMap((document) => {
    if (document.errors.length > 0) throw new Error(`${document.errors.join('; ')}\n${manifest}`);
    return (document.toJS() as Manifest | null) ?? [];
  });
  const release = { manifests, notes };
  releases.set(values, release);
  return release;
}
