/**
 * A URL without user, password, query and fragment, to print and log. Also takes a text that is no URL: messages about it quote it.
 *
 * @example printableUrl('https://me:pw@lists.example/1?key=k'); // 'https://lists.example/1'
 */
export function printableUrl(url: string | URL): string {
  const text = String(url);
  if (URL.canParse(text)) {
    const { protocol, host, pathname } = new URL(text);
    if (host !== '') return `${protocol}//${host}${pathname}`;
  }
  // Not a URL: drop everything up to the last "@" (user and password), and everything from the first "?" or "#".
  const rest = text.slice(text.lastIndexOf('@') + 1);
  const end = rest.search(/[?#]/);
  return end === -1 ? rest : rest.slice(0, end);
}
