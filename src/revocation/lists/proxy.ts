import { BlockList, isIP } from 'node:net';
import { text, type Kind } from '../../protocol/options.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** What `HTTP_PROXY` and `HTTPS_PROXY` hold. Without a scheme, a URL parser takes the host for one. */
export const PROXY_URL: Kind<string> = text(
  'an `http` or `https` URL with a host, and no path, such as `http://proxy.example:3128`',
  (url) => /^https?:\/\/[^\s/?#]+\/?$/i.test(url) && URL.canParse(url),
);

/** What `NO_PROXY` holds. */
export const PROXY_EXCEPTIONS: Kind<string> = text(
  '`*`, or a list of hosts, each with its subdomains, and networks, such as `a.example,b.example:8080,10.0.0.0/8`',
  (list) => entriesOf(list).every((entry) => matches(entry, '', '') !== null),
);

/** The name under which a variable is set that programs also read in small letters. Those count first; empty is unset. */
export function nameIn(env: Environment, name: string): string {
  return (env[name.toLowerCase()]?.trim() ?? '') === '' ? name : name.toLowerCase();
}

/**
 * The proxy that a URL is asked through; `null`: it is asked directly, as this machine always is.
 *
 * @throws Error if a variable is wrong, with its name
 */
export function proxyFor({ protocol, hostname, port }: URL, env: Environment = process.env) {
  const read = (name: string, kind: Kind<string>) => {
    const variable = nameIn(env, name);
    const value = env[variable]?.trim() ?? '';
    const reading = value === '' ? { value } : kind.check(value);
    if ('value' in reading) return { variable, value };
    // A URL may hold a password.
    throw new Error(`${variable} is ${JSON.stringify(value.replace(/.*@/s, ''))}: ${reading.problem}`);
  };
  const isTls = protocol === 'https:';
  const ofTls = isTls ? read('HTTPS_PROXY', PROXY_URL) : null;
  const { value, variable } = ofTls?.value ? ofTls : read('HTTP_PROXY', PROXY_URL);
  const exceptions = entriesOf(read('NO_PROXY', PROXY_EXCEPTIONS).value);
  const host = hostname.replace(/^\[|\]$|\.$/g, '');
  const isDirect = ['localhost', '127.0.0.0/8', '::1', ...exceptions].some((entry) =>
    matches(entry, host, port || (isTls ? '443' : '80')),
  );
  return value === '' || isDirect ? null : { url: new URL(value), variable };
}

const entriesOf = (list: string) => list.split(/[\s,]+/).filter((entry) => entry !== '');

const familyOf = (address: string) => (isIP(address) === 4 ? 'ipv4' : 'ipv6');

/** Whether an entry of `NO_PROXY` means a host; `null` if it is of no known form. */
function matches(entry: string, host: string, port: string): boolean | null {
  if (entry === '*') return true;
  const [, address = '', bits] = /^([\da-f.:]+)(?:\/(\d{1,3}))?$/i.exec(entry) ?? [];
  if (isIP(address) !== 0) {
    const size = isIP(address) === 4 ? 32 : 128;
    if (Number(bits ?? size) > size) return null;
    const list = new BlockList();
    list.addSubnet(address, Number(bits ?? size), familyOf(address));
    return isIP(host) !== 0 && list.check(host, familyOf(host));
  }
  const [, name, ipv6, asked = port] =
    /^(?:(?:\*?\.)?([\w-]+(?:\.[\w-]+)*)|\[([\da-f:.]+)\])(?::(\d{1,5}))?$/i.exec(entry) ?? [];
  const wanted = name ?? ipv6;
  return wanted === undefined ? null : asked === port && `.${host}`.endsWith(`.${wanted.toLowerCase()}`);
}
