import { BUNDLE_HEADER } from '../../gate/carriers.js';
import { CommandError } from '../command-error.js';

/** Reads the URL of `--to`. */
export function readTarget(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new CommandError(
      `--to is ${JSON.stringify(text)}, expected a URL of http or https`,
      'write it in full',
    );
  if (url.username !== '' || url.password !== '')
    throw new CommandError(
      '--to has a name or a password in it',
      "leave them out of the URL, and give --header-env 'Authorization: <variable>'",
    );
  url.hash = '';
  return url;
}

/** Reads the address of `--listen`: a host and a port. */
export function readAddress(text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([\da-fA-F:.]+)\]|([\w.-]+)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  const host = bracketed ?? plain;
  if (host === undefined || !(port <= 65_535))
    throw new CommandError(
      `--listen is ${JSON.stringify(text)}, expected a host and a port`,
      'write 127.0.0.1:7070, or [::1]:7070; port 0 takes a free one',
    );
  return { host: host.toLowerCase(), port };
}

/** The headers that are set here, or belong to one connection. */
const OWN: ReadonlySet<string> = new Set([
  ...[BUNDLE_HEADER.toLowerCase(), 'host', 'content-type', 'content-length', 'accept', 'last-event-id'],
  ...['mcp-session-id', 'mcp-protocol-version', 'mcp-method', 'mcp-name'],
  ...['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'expect'],
]);

/**
 * Reads the headers of `--header` (`Name: value`) and of `--header-env` (`Name: VARIABLE`). Errors show no value, which
 * may be secret.
 *
 * @returns values by names in lower case
 */
export function readHeaders(
  written: readonly string[],
  fromEnvironment: readonly string[],
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of written) add(headers, '--header', line, (value) => value);
  for (const line of fromEnvironment)
    add(headers, '--header-env', line, (variable, name) => {
      const found = process.env[variable];
      if (found !== undefined && found !== '') return found;
      throw new CommandError(
        `--header-env ${name} names the variable ${JSON.stringify(variable)}, which is not set`,
        'set it in the environment of this command',
      );
    });
  return headers;
}

function add(
  headers: Record<string, string>,
  option: string,
  line: string,
  valueOf: (given: string, name: string) => string,
): void {
  const [, written = '', given = ''] = /^([\w!#$%&'*+.^`|~-]+):[ \t]*(.*)$/s.exec(line) ?? [];
  const name = written.toLowerCase();
  if (name === '') {
    const what = option === '--header' ? 'value' : 'VARIABLE';
    throw new CommandError(`a ${option} has no colon after a name`, `write it in quotes: 'Name: ${what}'`);
  }
  if (OWN.has(name) || name in headers)
    throw new CommandError(
      `${option} sets ${written}, which ${OWN.has(name) ? 'is set by this command' : 'is set twice'}`,
      'leave it out',
    );
  const value = valueOf(given, written);
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
    throw new CommandError(
      `the value of ${option} ${written} has characters that no header can have`,
      'remove them',
    );
  headers[name] = value;
}
