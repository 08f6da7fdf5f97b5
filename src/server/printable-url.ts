/**
 * A URL as it may be printed and logged: without user, password, query and fragment. Takes what is no URL, too, since
 * that is what a complaint about one quotes.
 *
 * @example printableUrl('https://me:pw@lists.example/1?key=k'); // 'https://lists.example/1'
 */
export function printableUrl(text: string): string {
  if (URL.canParse(text)) {
    const { protocol, host, pathname } = new URL(text);
    if (host !== '') return `${protocol}//${host}${pathname}`;
  }
  // No URL: what looks like a user and a password goes with all before it, and what looks like a query with all behind.
  const rest = text.slice(text.lastIndexOf('@') + 1);
  const end = rest.search(/[?#]/);
  return end === -1 ? rest : rest.slice(0, end);
}
