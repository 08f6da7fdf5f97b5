import type { HeaderLookup } from '../gate/index.js';

/** Gives access to the headers of a request; names are in lower case. */
export interface HeaderSource {
  forEach(visit: (name: string, value: string) => void): void;
}

/** The headers of a proxied request that the gate reads. */
export interface GateHead {
  readonly headers: HeaderLookup;
  readonly contentType: string | null;
  readonly contentEncoding: string | null;
  /** The caller's method according to the proxy's headers; can be empty, or hold several. */
  readonly forwardedMethods: readonly string[];
  /** Methods that an application behind the gate could use instead of the real one. */
  readonly overridingMethods: readonly string[];
  /** Whether the proxy says that it has sent only a part of the body. */
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
  // If a header is repeated, the joined value is not a valid type or coding, so the body is refused.
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
