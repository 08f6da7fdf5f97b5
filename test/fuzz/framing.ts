/** A request as every reader of HTTP/1.1 cuts it out of a connection. Texts are latin1: a character is a byte. */
export interface FramedRequest {
  readonly method: string;
  readonly target: string;
  /** `1.0` or `1.1`. */
  readonly version: string;
  /** The names of its headers in their order, in lower case. */
  readonly headers: readonly string[];
  readonly body: string;
  /** Whether its first line has more spaces than two, a chunk an extension, or trailers follow. Few servers read these. */
  readonly isUnusual: boolean;
}

/** What stands in the bytes of a connection. */
export interface Framed {
  readonly requests: readonly FramedRequest[];
  /**
   * What comes behind them: the beginning of a request, the head of a request that gives its length twice, or something
   * else that two readers could cut differently.
   */
  readonly rest: 'nothing' | 'incomplete' | 'ambiguous' | 'odd';
}

// A method may be of any characters: they change nothing about where a request ends.
// RFC 9112 §3 lets a server read several spaces as one.
const REQUEST_LINE = /^([\x21-\x7e]+)( +)([\x21-\x7e\x80-\xff]+)( +)HTTP\/(1\.[01])$/;
const HEADER_LINE = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*([^\0-\x08\x0a-\x1f\x7f]*)$/;
const CHUNK_LINE = /^([\da-f]{1,8})[ \t]*(?:;[^\0-\x08\x0a-\x1f]*)?$/i;

/**
 * Reads requests from the bytes of a connection, strictly: of the leniencies of RFC 9112 only spaces. Reading ends where a
 * request says its length twice, not at all, or in a way that RFC 9112 does not have.
 */
export function readFraming(bytes: string): Framed {
  const requests: FramedRequest[] = [];
  let at = 0;
  while (at < bytes.length) {
    const headEnd = bytes.indexOf('\r\n\r\n', at);
    if (headEnd < 0) return { requests, rest: 'incomplete' };
    const [first = '', ...lines] = bytes.slice(at, headEnd).split('\r\n');
    const [, method = '', before = '', target = '', after = '', version = ''] =
      REQUEST_LINE.exec(first) ?? [];
    const headers = lines.map((line) => HEADER_LINE.exec(line));
    if (method === '' || headers.includes(null)) return { requests, rest: 'odd' };
    const valuesOf = (name: string) =>
      headers.flatMap((line) => (line?.[1]?.toLowerCase() === name ? [line[2]?.trim() ?? ''] : []));
    const body = readBody(bytes, headEnd + 4, valuesOf('content-length'), valuesOf('transfer-encoding'));
    if (typeof body === 'string') return { requests, rest: body };
    const names = headers.map((line) => line?.[1]?.toLowerCase() ?? '');
    const isUnusual = body.hasExtras || before.length + after.length > 2;
    requests.push({ method, target, version, headers: names, body: body.text, isUnusual });
    at = body.end;
  }
  return { requests, rest: 'nothing' };
}

type Body =
  | { readonly text: string; readonly end: number; readonly hasExtras: boolean }
  | 'incomplete'
  | 'ambiguous'
  | 'odd';

function readBody(
  bytes: string,
  start: number,
  lengths: readonly string[],
  codings: readonly string[],
): Body {
  if (lengths.length + codings.length === 0) return { text: '', end: start, hasExtras: false };
  if (lengths.length + codings.length > 1) return 'ambiguous';
  if (codings.length > 0) return codings[0]?.toLowerCase() === 'chunked' ? readChunks(bytes, start) : 'odd';
  if (!/^\d{1,9}$/.test(lengths[0] ?? '')) return 'odd';
  const end = start + Number(lengths[0]);
  return end <= bytes.length ? { text: bytes.slice(start, end), end, hasExtras: false } : 'incomplete';
}

function readChunks(bytes: string, start: number): Body {
  let text = '';
  let at = start;
  let hasExtras = false;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return 'incomplete';
    const [line = '', size] = CHUNK_LINE.exec(bytes.slice(at, lineEnd)) ?? [];
    if (size === undefined) return 'odd';
    hasExtras ||= line !== size;
    at = lineEnd + 2;
    const length = Number.parseInt(size, 16);
    if (length === 0) break;
    if (at + length + 2 > bytes.length) return 'incomplete';
    if (!bytes.startsWith('\r\n', at + length)) return 'odd';
    text += bytes.slice(at, at + length);
    at += length + 2;
  }
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return 'incomplete';
    const line = bytes.slice(at, lineEnd);
    at = lineEnd + 2;
    if (line === '') return { text, end: at, hasExtras };
    hasExtras = true;
    if (!HEADER_LINE.test(line)) return 'odd';
  }
}

/** An answer on a connection. */
export interface Answered {
  readonly status: number;
  readonly body: string;
}

/** What came back on a connection. */
export interface Answers {
  readonly answers: readonly Answered[];
  /** What follows the last whole answer. */
  readonly end: string;
}

/**
 * Cuts what came back into answers, without those of status 100.
 *
 * @param methods of the requests in their order: an answer to HEAD has no body
 */
export function readAnswers(text: string, methods: readonly string[]): Answers {
  const answers: Answered[] = [];
  let at = 0;
  for (;;) {
    const headEnd = text.indexOf('\r\n\r\n', at);
    const head = text.slice(at, headEnd);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
    if (headEnd < 0 || Number.isNaN(status)) return { answers, end: text.slice(at) };
    const hasBody = methods[answers.length] !== 'HEAD' && status !== 100;
    const body = hasBody ? readAnswerBody(text, headEnd + 4, head) : { text: '', end: headEnd + 4 };
    if (body === null) return { answers, end: text.slice(at) };
    if (status !== 100) answers.push({ status, body: body.text });
    at = body.end;
  }
}

function readAnswerBody(text: string, start: number, head: string): { text: string; end: number } | null {
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const body = readChunks(text, start);
    return typeof body === 'string' ? null : body;
  }
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  // Without a length the body goes on until the connection is closed.
  const end = length === undefined ? text.length : start + Number(length);
  return end <= text.length ? { text: text.slice(start, end), end } : null;
}
