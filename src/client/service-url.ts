/** A path of the service that commands and clients ask. */
export type ServicePath =
  '/verify' | '/admin/revoke' | '/admin/revocations' | `/admin/usage?receipt=${string}`;

/**
 * Makes the URL of a service's endpoint.
 *
 * @param address the address of the service, which may have a path; query and fragment are dropped
 * @throws TypeError if it is not an http or https URL without credentials. The address is not in the message: it may
 *   hold a password.
 * @example serviceUrl('http://127.0.0.1:8080/drs/', '/verify').href; // 'http://127.0.0.1:8080/drs/verify'
 */
export function serviceUrl(address: string | URL, path: ServicePath): URL {
  const url = URL.canParse(String(address)) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw new TypeError(
      'the address of the verification service is not an http or https URL without credentials; ' +
        'give one such as http://127.0.0.1:8080',
    );
  }
  return new URL(url.pathname.replace(/\/+$/, '') + path, url.origin);
}
