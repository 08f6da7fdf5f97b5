const MAX_LENGTH = 500;
const FORM = /^did:web:([a-z0-9.-]+)(?:%3A([1-9]\d{0,4}))?((?::[^:]+)*)$/;
// A percent-encoded dot, slash or control would name another place than it seems to.
const SEGMENT = /^(?!\.{1,2}$)(?:[\w.-]|%(?![01]|2[0EF]|5C|7F)[0-9A-F]{2})+$/;

/**
 * Where the document of a `did:web` is; `null` for what is none. Each place has one spelling.
 *
 * @see W3C CCG did:web §2.5.2
 * @example documentUrlOf('did:web:a.example%3A8443:team')?.href; // 'https://a.example:8443/team/did.json'
 */
export function documentUrlOf(did: string): URL | null {
  const [, host = '', port, path = ''] = did.length > MAX_LENGTH ? [] : (FORM.exec(did) ?? []);
  const segments = path === '' ? ['.well-known'] : path.slice(1).split(':');
  const server = port === undefined ? host : `${host}:${port}`;
  const text = `${host === 'localhost' ? 'http' : 'https'}://${server}/${segments.join('/')}/did.json`;
  const isHost = host.split('.').every((label) => /^[a-z0-9]+(?:-+[a-z0-9]+)*$/.test(label));
  // What ends in a number is an address.
  if (!isHost || !/[a-z][^.]*$/.test(host) || !segments.every((one) => SEGMENT.test(one))) return null;
  const url = URL.canParse(text) ? new URL(text) : null;
  // A URL drops its usual port.
  return url?.href === text ? url : null;
}
