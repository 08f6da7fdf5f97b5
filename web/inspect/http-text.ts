// Reads requests as people copy them: raw HTTP, a curl command, an entry of a HAR file.
import { bodyOfText, unusable, whyNoJson } from '../../src/gate/carriers.js';
import { readHeaders, type GateRequest, type HeaderMap } from '../../src/gate/request.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/protocol/json.js';

type Headers = [name: string, value: string][];

function requestOf(method: string, target: string | null, given: Headers, text: string): GateRequest {
  const headers = readHeaders(given);
  return {
    method: method.toUpperCase(),
    target,
    headers,
    body: text === '' ? { kind: 'none' } : bodyOfText(text, headers),
  };
}

function add(headers: Headers, line: string): void {
  const colon = line.indexOf(':');
  if (colon > 0) headers.push([line.slice(0, colon).trim(), line.slice(colon + 1).trim()]);
}

/** Reads `POST /mcp HTTP/1.1`, headers, an empty line and the body; `null` if the text is something else. */
export function readRawRequest(text: string): GateRequest | null {
  const [, method = '', target = ''] = /^([A-Z]{3,10}) (\S+)(?: HTTP\/[\d.]+)?\r?\n/.exec(text) ?? [];
  if (method === '') return null;
  const end = /\r?\n\r?\n/.exec(text);
  const head = end === null ? text : text.slice(0, end.index);
  const headers: Headers = [];
  for (const line of head.split(/\r?\n/).slice(1)) add(headers, line);
  return requestOf(method, target, headers, end === null ? '' : text.slice(end.index + end[0].length).trim());
}

/** Reads a curl command as a shell would; `null` if the text is something else. */
export function readCurl(text: string): GateRequest | null {
  if (!/^\$?\s*curl(?:\.exe)?\s/.test(text)) return null;
  const words = shellWords(text.replace(/^\$\s*/, ''));
  const headers: Headers = [];
  let [method, url, body] = ['', '', ''];
  for (let at = 1; at < words.length; at++) {
    const word = words[at] ?? '';
    const [name, joined] = word.startsWith('--')
      ? split(word, '=')
      : [word.slice(0, 2), word.slice(2) || undefined];
    const value = () => joined ?? words[++at] ?? '';
    if (name === '-H' || name === '--header') add(headers, value());
    else if (name === '-X' || name === '--request') method = value();
    else if (name === '-d' || name.startsWith('--data') || name === '--json')
      body += (body === '' ? '' : '&') + value();
    else if (!word.startsWith('-') && url === '') url = word;
  }
  const path = URL.canParse(url) ? new URL(url).pathname : url === '' ? null : url;
  return requestOf(method === '' ? (body === '' ? 'GET' : 'POST') : method, path, headers, body);
}

function split(word: string, by: string): [string, string | undefined] {
  const at = word.indexOf(by);
  return at === -1 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)];
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };

/** The words of a command: quotes, escapes, `$'…'`, and lines that go on after a backslash. */
function shellWords(text: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charAt(at);
    const isAnsi = unit === '$' && text.charAt(at + 1) === "'";
    if (unit === "'" || isAnsi) {
      let inner = '';
      for (at += isAnsi ? 2 : 1; at < text.length && text.charAt(at) !== "'"; at++) {
        if (isAnsi && text.charAt(at) === '\\') {
          const next = text.charAt(++at);
          const hex = next === 'u' ? /^[\da-f]{4}/i.exec(text.slice(at + 1, at + 5)) : null;
          if (hex !== null) at += 4;
          inner += hex === null ? (ESCAPES[next] ?? next) : String.fromCharCode(Number.parseInt(hex[0], 16));
        } else inner += text.charAt(at);
      }
      word = (word ?? '') + inner;
    } else if (unit === '"') {
      let inner = '';
      for (at++; at < text.length && text.charAt(at) !== '"'; at++) {
        if (text.charAt(at) === '\\' && '"\\$`'.includes(text.charAt(at + 1))) at++;
        inner += text.charAt(at);
      }
      word = (word ?? '') + inner;
    } else if (unit === '\\' || unit === '^') {
      const next = text.charAt(++at);
      if (next !== '\n' && next !== '\r') word = (word ?? '') + next;
    } else if (/\s/.test(unit)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? '') + unit;
  }
  if (word !== null) words.push(word);
  return words;
}

/** The requests of a HAR file (browsers, proxies); `null` if it is none. */
export function readHar(value: JsonObject): GateRequest[] | null {
  const log = value['log'];
  if (!isJsonObject(log) || !Array.isArray(log['entries'])) return null;
  return log['entries'].slice(0, 1000).flatMap((entry) => {
    const request = isJsonObject(entry) ? entry['request'] : null;
    if (!isJsonObject(request)) return [];
    const headers: Headers = [];
    for (const header of Array.isArray(request['headers']) ? request['headers'] : [])
      if (isJsonObject(header)) add(headers, `${textOf(header['name'])}:${textOf(header['value'])}`);
    const data = request['postData'];
    const url = textOf(request['url']);
    return [
      requestOf(
        textOf(request['method']),
        URL.canParse(url) ? new URL(url).pathname : null,
        headers,
        isJsonObject(data) ? textOf(data['text']) : '',
      ),
    ];
  });
}

/** The question to `POST /v1/gate`, or an MCP or A2A message without its headers; `null` if it is none. */
export function readGateQuestion(value: JsonObject, text: string): GateRequest | null {
  if (value['jsonrpc'] === '2.0' && typeof value['method'] === 'string')
    return requestOf('POST', null, [['content-type', 'application/json']], text);
  const { method, path, headers: given, body } = value;
  if (typeof method !== 'string' || !isJsonObject(given)) return null;
  const headers = readHeaders(given);
  return {
    ...{ method, target: typeof path === 'string' ? path : null, headers },
    body: Object.hasOwn(value, 'body_text')
      ? bodyOfText(textOf(value['body_text']), headers)
      : valueBody(body ?? null, headers),
  };
}

/** As `POST /v1/gate` takes a `body`. */
function valueBody(body: JsonValue, headers: HeaderMap): GateRequest['body'] {
  const reason = whyNoJson(headers);
  if (reason !== null) return unusable(reason);
  return body === null ? { kind: 'none' } : { kind: 'value', value: body };
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}
