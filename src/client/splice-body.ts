/**
 * Puts the text of a request body into a bundle, as its member `body`. The text is not changed: parsing and serializing
 * would round big integers and drop duplicate names, so the service would check another body.
 *
 * @param bundle the JSON text of an object that has no member `body`
 * @param body JSON text. It must be exactly one JSON value, since other text could add members to the bundle
 * @throws SyntaxError if the body is not JSON
 * @example spliceBody('{"invocation":"…"}', '9007199254740993'); // '{"invocation":"…","body":9007199254740993}'
 */
export function spliceBody(bundle: string, body: string): string {
  JSON.parse(body);
  const start = bundle.slice(0, bundle.lastIndexOf('}'));
  const separator = start.trimEnd().endsWith('{') ? '' : ',';
  return `${start}${separator}"body":${body}}`;
}
