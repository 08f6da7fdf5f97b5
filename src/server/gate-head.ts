import type { HeaderLookup } from '../gate/index.js';

/** Where a front end shows the headers of a request, names in lower case. */
export interface HeaderSource {
  forEach(visit: (name: string, value: string) => void): void;
}

/** What the headers of a proxied request say, as far as the gate reads them. */
export interface GateHead {
  readonly headers: HeaderLookup;
  readonly contentType: string | null;
  readonly contentEncoding: string | null;
  /** The methods that the caller's request may have, where headers name any. */
  readonly forwardedMethods: readonly string[];
  /** What an application behind the gate could take for the method. */
  readonly overridingMethods: readonly string[];
  /** Whether the proxy says that it has sent a part of the body only. */
  readonly isPartial: boolean;
}

const READ: ReadonlySet<string> = new Set([
  'x-drs-bundle',
  'mcp-method',
  'mcp-name',
  'content-type',
  'content-encoding',
  'x-forwarded-method',
  'x-original-method',
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-envoy-auth-partial-body',
]);

/** Reads the headers of a proxied request in one pass. */
export function readGateHead(source: HeaderSource): GateHead {
  const found = new Map<string, string[]>();
  source.forEach((name, value) => {
    if (!READ.has(name)) return;
    const values = found.get(name);
    if (values === undefined) found.set(name, [value]);
    else values.push(value);
  });
  const all = (...names: string[]): string[] => names.flatMap((name) => found.get(name) ?? []);
  // Two of them are none that anybody could agree on: joined, no parser of types or codings knows them.
  const joined = (name: string): string | null => found.get(name)?.join(', ') ?? null;
  return {
    headers: (name) => found.get(name) ?? [],
    contentType: joined('content-type'),
    contentEncoding: joined('content-encoding'),
    forwardedMethods: all('x-forwarded-method', 'x-original-method'),
    overridingMethods: all('x-http-method-override', 'x-http-method', 'x-method-override'),
    isPartial: all('x-envoy-auth-partial-body').some((value) => value.trim().toLowerCase() !== 'false'),
  };
}
