import { GATE_HEADERS, headerName, headerValue, type HeaderLookup } from '../../gate/request.js';
import type { Protocol } from '../../gate/codes.js';
import { GATE_PROTOCOLS } from '../../gate/open.js';
import { hasDotSegment } from '../../protocol/resources.js';

const PATHS = ['x-forwarded-uri', 'x-original-uri'];
const READ: ReadonlySet<string> = new Set([...GATE_HEADERS, ...PATHS, 'x-envoy-auth-partial-body']);
/** The headers with which a proxy says what the caller has sent. */
const SAID: ReadonlySet<string> = new Set([
  ...PATHS,
  'x-original-url',
  'x-forwarded-method',
  'x-original-method',
]);
const NONE: readonly string[] = [];

/** The headers of a proxied request that the gate reads. */
export class GateHead {
  /**
   * A single value is stored without an array: V8 comes to allocate such arrays in the old generation, where dead ones
   * keep bundles of up to 64 KiB alive. At depth 16 that took a quarter of the gate's own time, without signatures.
   */
  readonly #found = new Map<string, string | string[]>();

  /** Takes one header of the request. */
  add(sentName: string, sentValue: string): void {
    const name = headerName(sentName);
    if (!READ.has(name)) return;
    // A proxy takes such a header off the caller's request, but may leave a spelling of it. That one agrees with nothing.
    const isSpelling = name !== sentName && SAID.has(name);
    const value = isSpelling ? `${sentName}: ${sentValue}` : headerValue(sentValue);
    const values = this.#found.get(name);
    if (values === undefined) this.#found.set(name, value);
    else if (typeof values === 'string') this.#found.set(name, [values, value]);
    else values.push(value);
  }

  readonly headers: HeaderLookup = (name) => this.#all(name);

  /**
   * The path and query of the caller's request. If nothing else says them, `X-Original-Url` does; otherwise it is one of the
   * headers that can name another path.
   *
   * @param known what the proxy has asked with; empty if it has asked with a path of its own
   * @returns `null` if nothing says the path, or if two disagree: a caller may have sent such a header
   */
  path(known: string): string | null {
    let path = known === '' ? null : known;
    for (const name of PATHS) {
      for (const said of this.#all(name)) {
        if (path !== null && said !== path) return null;
        path = said;
      }
    }
    return path ?? this.#all('x-original-url')[0] ?? null;
  }

  /** Whether the proxy says that it has sent only a part of the body. */
  get isPartial(): boolean {
    return this.#all('x-envoy-auth-partial-body').some((value) => value.toLowerCase() !== 'false');
  }

  #all(name: string): readonly string[] {
    const values = this.#found.get(name) ?? NONE;
    return typeof values === 'string' ? [values] : values;
  }
}

const PREFIX = '/gate/';

/**
 * The protocol in a path `/gate/<protocol>` or a path below it: proxies append the caller's path.
 *
 * @returns `null` for any other path, and for a path with a `.` or `..` segment in any spelling: a proxy that resolves
 *   such a segment could see another protocol
 * @example gateProtocolOf('/gate/mcp/tools?x=1'); // 'mcp'
 */
export function gateProtocolOf(path: string): Protocol | null {
  if (!path.startsWith(PREFIX)) return null;
  const end = path.indexOf('/', PREFIX.length);
  const name = path.slice(PREFIX.length, end < 0 ? undefined : end);
  const protocol = GATE_PROTOCOLS.find((known) => known === name) ?? null;
  return path.includes('\\') || hasDotSegment(path) ? null : protocol;
}
