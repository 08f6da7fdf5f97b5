const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Sends a request that carries a bundle, and follows no redirect: the bundle is for this server alone.
 *
 * @throws Error that names the location, if the server answers with a redirect
 */
export async function sendSigned(
  fetch: typeof globalThis.fetch,
  input: string | URL | Request,
  init: RequestInit,
): Promise<Response> {
  const response = await fetch(input, { ...init, redirect: 'manual' });
  // Browsers hide the status and the location.
  if (response.type !== 'opaqueredirect' && !REDIRECTS.has(response.status)) return response;
  const location = response.headers.get('location');
  await response.body?.cancel();
  const where = location === null ? 'another address' : JSON.stringify(location.slice(0, 200));
  throw new Error(
    `the server redirects this signed request to ${where}, and a bundle goes to no other address: call that one, if you trust it`,
  );
}
