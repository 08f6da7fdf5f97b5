import { readFileSync } from 'node:fs';
import path from 'node:path';

interface Vector {
  readonly kind: string;
  readonly request: unknown;
  readonly expected: { readonly code?: string; readonly decision?: string };
}

/** What the conformance vectors of a kind ask: one question for each code, and each decision. */
export function requestsOf(kind: 'verify' | 'gate'): unknown[] {
  const file = path.join(process.cwd(), 'test', 'conformance', 'vectors.json');
  const { vectors } = JSON.parse(readFileSync(file, 'utf8')) as { vectors: Vector[] };
  const byOutcome = new Map<string, unknown>();
  for (const { kind: found, request, expected } of vectors) {
    const outcome = expected.code ?? expected.decision ?? 'valid';
    if (found === kind && !byOutcome.has(outcome)) byOutcome.set(outcome, request);
  }
  return [...byOutcome.values()];
}

/** The texts of bundles. */
export const bundles = (): string[] => requestsOf('verify').filter((text) => typeof text === 'string');

/** The receipts and invocations in those that are JSON. */
export function jwts(): string[] {
  return bundles().flatMap((text) =>
    [...text.matchAll(/"([\w-]+\.[\w-]+\.[\w-]+)"/g)].map(([, jwt = '']) => jwt),
  );
}
