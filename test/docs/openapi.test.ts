import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { CATALOGUE } from '../../src/verify/codes.js';
import { requireApprovePage } from '../support/approve-page.js';
import { findDifferences, openApi } from '../support/openapi.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

/** What a service has for a path: one route for all of them below `/approve/`. */
const routeOf = (path: string) => path.replace(/^\/approve\/.*/, '/approve');
const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

describe('docs/openapi.yaml', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-openapi-'));
  let service: RunningService;
  beforeAll(async () => {
    writeFileSync(path.join(folder, 'roots.jsonl'), '');
    // Each part that adds metrics or paths is on.
    const roots = { TRUSTED_ROOTS_FILE: folder, TOOLS_FILE: folder };
    requireApprovePage();
    const asking = { APPROVALS_URL: 'https://drs.example' };
    service = await startService({ GRPC_PORT: '0', REPLAY_PROTECTION: 'memory', ...roots, ...asking });
  });
  afterAll(async () => {
    await service.stop();
    rmSync(folder, { recursive: true });
  });

  it('is OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate(read('docs/openapi.yaml'));
    expect({ valid, errors }).toEqual({ valid: true, errors: undefined });
  });

  it('has the version of the package', () => {
    expect(openApi.info.version).toBe((JSON.parse(read('package.json')) as { version: string }).version);
  });

  it('names each operation once, and describes each answer', () => {
    const operations = Object.values(openApi.paths).flatMap((methods) => Object.values(methods));
    const ids = operations.map((operation) => (operation as { operationId?: string }).operationId);
    expect(ids).not.toContain(undefined);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('is what the service serves, and what answers are compared with', async () => {
    const response = await fetch(`${service.url}/openapi.json`);
    expect(await response.json()).toEqual(parse(read('docs/openapi.yaml')));
    expect(openApi).toEqual(parse(read('docs/openapi.yaml')));
  });

  it('has the paths that the service has', async () => {
    const response = await fetch(`${service.url}/no-such-path`);
    const { error } = (await response.json()) as { error: string };
    const [, list = ''] = /there are (.*)$/.exec(error) ?? [];
    // What proxies ask is described in docs/spec/gate.md.
    const described = list.split(', ').filter((path) => !path.startsWith('/gate/'));
    const served = new Set(Object.keys(openApi.paths).map(routeOf));
    expect([...served].sort()).toEqual(described.sort());
  });

  it.each(Object.keys(openApi.paths))('has the methods of %s', async (path) => {
    const response = await fetch(service.url + path, { method: 'PATCH' });
    const methods = Object.entries(openApi.paths)
      .filter(([other]) => routeOf(other) === routeOf(path))
      .flatMap(([, operations]) => Object.keys(operations));
    const documented = new Set(methods.flatMap((method) => (method === 'get' ? ['get', 'head'] : method)));
    expect(response.headers.get('allow')?.toLowerCase().split(', ').sort()).toEqual([...documented].sort());
  });

  it('has the statuses that the code answers, and no other', () => {
    const sources = readdirSync(new URL('../../src/service', import.meta.url), {
      recursive: true,
      encoding: 'utf8',
    })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => read(`src/service/${file}`))
      .join('\n');
    const given = [
      ...sources.matchAll(
        /(?:\b(?:errorAnswer|refuse)\([^;]*?\b|\bstatus: |\bREFUND_\w+: |\?\? )([2-5]\d\d),/g,
      ),
    ].map(([, x]) => x);
    const documented = Object.values(openApi.paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ responses }) => Object.keys(responses));
    // Of paths and methods that the document does not have.
    expect([...new Set([...documented, '404', '405'])].sort()).toEqual([...new Set(given)].sort());
  });

  it('has the codes of the catalogue, in their order', () => {
    const codes = [...new Set(CATALOGUE.map(({ code }) => code))];
    expect(openApi.components.schemas['Code']?.enum).toEqual(codes);
  });

  it('has the metrics of the service, with their types and labels', async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    const documented = openApi.paths['/metrics']?.['get']?.['x-metrics'] ?? {};
    const types = [...text.matchAll(/^# TYPE (drs_\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]);
    const expected = Object.entries(documented).map(([name, { type }]) => [name, type]);
    expect(Object.fromEntries(expected)).toEqual(Object.fromEntries(types));
    for (const [, series = '', labels = ''] of text.matchAll(/^(drs_\w+)\{(.*)\} /gm)) {
      const name = series in documented ? series : series.replace(/_(?:bucket|sum|count)$/, '');
      const names = [...labels.matchAll(/(\w+)="/g)]
        .map(([, label]) => label)
        .filter((label) => label !== 'le');
      expect([name, names]).toEqual([name, documented[name]?.labels]);
    }
  });
});

const PRIVATE = { private: true, challenge: 'x', approvers: [{ name: 'Alice', id: 'x' }] };
const DENIED = { allow: false, gated: true, status: 403 };

describe('comparing answers with it', () => {
  const answer = (path: string, status: number, body: unknown, headers: Record<string, string> = {}) =>
    findDifferences({
      method: 'POST',
      path,
      status,
      headers: new Headers({ 'Content-Type': 'application/json', ...headers }),
      text: JSON.stringify(body),
    });

  it('finds nothing in answers as they are described', () => {
    const error = { code: 'EXPIRED', message: 'm', suggestion: 's' };
    expect(answer('/verify', 200, { valid: false, error })).toEqual([]);
    expect(answer('/verify', 503, { error: 'overloaded' }, { 'Retry-After': '1' })).toEqual([]);
    expect(answer('/nowhere', 404, { error: 'unknown path' })).toEqual([]);
    expect(answer('/approve/AAAA', 200, { state: 'asked', missing: 1 })).toEqual([]);
    expect(answer('/v1/gate', 200, DENIED)).toEqual([]);
  });

  it.each([
    ['a member that is not described', '/verify', 200, { valid: true, context: {}, more: 1 }],
    [
      'a code that is none',
      '/verify',
      200,
      { valid: false, error: { code: 'NO', message: '', suggestion: '' } },
    ],
    ['a status that is not described', '/verify', 418, { error: 'teapot' }],
    ['a header that is missing', '/verify', 503, { error: 'overloaded' }],
    ['a body of another shape', '/nowhere', 404, 'unknown path'],
    ['a 404 where there is a path', '/verify', 404, { error: 'unknown path' }],
    ['an answer without its state', '/approve/AAAA', 200, { missing: 0 }],
    ['a private question to its approver', '/approve/AAAA/statement', 200, PRIVATE],
    [
      'a link of another form',
      '/v1/gate',
      200,
      { ...DENIED, response: { error: { approval: { url: 'u' } } } },
    ],
    [
      'a yes without its names',
      '/v1/gate',
      200,
      { ...DENIED, context: { approval: { statement: 'x', by: [] } } },
    ],
  ])('finds %s', (_, path, status, body) => {
    expect(answer(path, status, body)).not.toEqual([]);
  });
});
