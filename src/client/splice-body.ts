/**
 * Puts a request body into a bundle as its member `body`, character for character: parsing it would round a big
 * integer and drop a repeated name, and then the service would check another body.
 *
 * @param bundle the JSON text of an object that has no member `body`
 * @param body JSON text; what is not exactly one JSON value could end the member and begin another
 * @throws SyntaxError if the body is not JSON
 * @example spliceBody('{"invocation":"…"}', '9007199254740993'); // '{"invocation":"…","body":9007199254740993}'
 */
export function spliceBody(bundle: string, body: string): string {
  JSON.parse(body);
  const start = bundle.slice(0, bundle.lastIndexOf('}'));
  const separator = start.trimEnd().endsWith('{') ? '' : ',';
  return `${start}${separator}"body":${body}}`;
}
