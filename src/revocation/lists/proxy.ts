import { BlockList, isIP } from 'node:net';
import { text, type Kind } from '../../protocol/options.js';

/** A proxy, and the variable that names it. */
interface Proxy {
  readonly url: URL;
  readonly variable: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** What `HTTP_PROXY` and `HTTPS_PROXY` hold. Without a scheme, a URL parser takes the host for one. */
export const PROXY_URL: Kind<string> = text(
  'an `http` or `https` URL with a host, and no path, such as `http://proxy.example:3128`',
  (url) => /^https?:\/\/[^\s/?#]+\/?$/i.test(url) && URL.canParse(url),
);

/** What `NO_PROXY` holds. */
export const PROXY_EXCEPTIONS: Kind<string> = text(
  '`*`, or a list of hosts, each with its subdomains, and networks, such as `a.example,b.example:8080,10.0.0.0/8`',
  (list) => entriesOf(list).every((entry) => exceptionOf(entry) !== null),
);

/**
 * The name under which a variable is set that programs also read in small letters. Those count first; empty is unset.
 *
 * @example nameIn({ http_proxy: 'http://p:3128' }, 'HTTP_PROXY'); // 'http_proxy'
 */
export function nameIn(env: Environment, name: string): string {
  return (env[name.toLowerCase()]?.trim() ?? '') === '' ? name : name.toLowerCase();
}

/**
 * The proxy that a URL is asked through; `null`: it is asked directly, as this machine always is.
 *
 * @throws Error if a variable is wrong, with its name
 */
export function proxyFor({ protocol, hostname, port }: URL, env: Environment = process.env): Proxy | null {
  const read = (name: string, kind: Kind<string>) => {
    const variable = nameIn(env, name);
    const value = env[variable]?.trim() ?? '';
    const reading = value === '' ? { value } : kind.check(value);
    if ('value' in reading) return { variable, value };
    // A URL may hold a password.
    throw new Error(`${variable} is ${JSON.stringify(value.replace(/.*@/s, ''))}: ${reading.problem}`);
  };
  const ofHttp = read('HTTP_PROXY', PROXY_URL);
  const ofHttps = protocol === 'https:' ? read('HTTPS_PROXY', PROXY_URL) : ofHttp;
  const { value, variable } = ofHttps.value === '' ? ofHttp : ofHttps;
  if (value === '') return null;
  const asked = port || (protocol === 'https:' ? '443' : '80');
  const exceptions = entriesOf(read('NO_PROXY', PROXY_EXCEPTIONS).value);
  const isDirect = ['localhost', '127.0.0.0/8', '::1', ...exceptions].some((entry) =>
    exceptionOf(entry)?.(hostname.replace(/\.$/, ''), asked),
  );
  return isDirect ? null : { url: new URL(value), variable };
}

const entriesOf = (list: string) => list.split(/[\s,]+/).filter((entry) => entry !== '');

/** What an entry of `NO_PROXY` matches; `null` if it is of no known form. */
function exceptionOf(entry: string): ((host: string, port: string) => boolean) | null {
  if (entry === '*') return () => true;
  const [, address = '', bits] = /^([\da-f.:]+)(?:\/(\d{1,3}))?$/i.exec(entry) ?? [];
  const version = isIP(address);
  if (version !== 0) {
    const size = version === 4 ? 32 : 128;
    if (Number(bits ?? size) > size) return null;
    const list = new BlockList();
    list.addSubnet(address, Number(bits ?? size), version === 4 ? 'ipv4' : 'ipv6');
    return (host) => {
      const found = host.replace(/^\[|\]$/g, '');
      return isIP(found) !== 0 && list.check(found, isIP(found) === 4 ? 'ipv4' : 'ipv6');
    };
  }
  const [, name = '', port] =
    /^(?:\*?\.)?([\w-]+(?:\.[\w-]+)*|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i.exec(entry) ?? [];
  if (name === '') return null;
  const wanted = name.toLowerCase();
  return (host, asked) => (port ?? asked) === asked && (host === wanted || host.endsWith(`.${wanted}`));
}
