import { CONTEXT_HEADERS, type HeaderChanges } from '../../gate/context.js';
import { NAMING_HEADERS } from '../../gate/request.js';

/** What belongs to one connection (RFC 9110, section 7.6.1), and is not sent on in either direction. */
const OF_CONNECTION = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'],
];

/** What is made anew, or was answered here. */
const OF_REQUEST = ['host', 'content-length', 'expect'];

/** What an application could take for another method or path than those that were decided on. */
const NAMING = [...NAMING_HEADERS, 'x-original-uri', 'x-forwarded-uri'];

const NOT_SENT: ReadonlySet<string> = new Set([...OF_CONNECTION, ...OF_REQUEST, ...NAMING]);
const NOT_ANSWERED: ReadonlySet<string> = new Set(OF_CONNECTION);

/** The bundle and the context of a call: only a gate may say who acts for whom. */
const OURS = 'x-drs-';
if (!CONTEXT_HEADERS.every((name) => name.toLowerCase().startsWith(OURS)))
  throw new Error('a context header has another prefix');

/**
 * The headers of a request for the tool server: those of the client, without those that only concern the gate or the
 * connection, and with the context. The front end has refused names like `X_DRS_Agent`, which some servers take for
 * `X-DRS-Agent`.
 *
 * @param raw names and values by turns
 * @param contentType replaces that of the client
 */
export function forwardedHeaders(
  raw: readonly string[],
  { set }: Pick<HeaderChanges, 'set'>,
  contentType: string | null,
): string[] {
  const kept = without(
    raw,
    (name) =>
      NOT_SENT.has(name) || name.startsWith(OURS) || (contentType !== null && name === 'content-type'),
  );
  if (contentType !== null) kept.push('Content-Type', contentType);
  return [...kept, ...Object.entries(set).flat()];
}

/** The headers of an answer for the client. */
export function answeredHeaders(raw: readonly string[]): string[] {
  return without(raw, (name) => NOT_ANSWERED.has(name));
}

function without(raw: readonly string[], isLeftOut: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name = '', value = ''] = raw.slice(at, at + 2);
    if (!isLeftOut(name.toLowerCase())) kept.push(name, value);
  }
  return kept;
}
