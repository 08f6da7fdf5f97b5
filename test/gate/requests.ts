import fc from 'fast-check';
import {
  a2aBundle,
  a2aCall,
  httpCall,
  mcpBundle,
  mcpRequest,
  requestBundle,
  toolCall,
  type Attempt,
} from './attacks.js';

/** Requests to a gate: signed ones, and what comes of them when a part is missing, wrong or another's. */

const bundles: fc.Arbitrary<() => string> = fc.constantFrom(
  () => mcpBundle(),
  () => a2aBundle(),
  () => mcpBundle({ tool: 'search' }),
  () => mcpBundle({ tool: 'search', query: 'tea' }, { iat: 1 }),
  () => requestBundle('resources/read', { resource_uri: 'file:///a/b' }),
  () => 'e30',
  () => '',
  () => 'a,b',
);
const read = mcpRequest('resources/read', { uri: 'file:///a/b' });
const bodies = fc.oneof(
  fc.constantFrom(read, mcpRequest('prompts/get', { name: 'search' }), mcpRequest('tasks/get', {})),
  fc.constantFrom(toolCall(), a2aCall(), httpCall, toolCall({ arguments: {} }), '{"tool":"search"}', '', '['),
  fc
    .constantFrom('id', 'method', 'params', 'jsonrpc', 'tool', 'query')
    .chain((name) =>
      fc
        .tuple(fc.constantFrom(toolCall(), a2aCall(), httpCall, read), fc.jsonValue())
        .map(([text, value]) => JSON.stringify({ ...(JSON.parse(text) as object), [name]: value })),
    ),
);

type Judged = 'http' | 'mcp' | 'a2a';

/** A request of {@link requests}. */
export interface MadeRequest {
  readonly protocol: Judged;
  readonly method: string;
  readonly bundles: readonly (() => string)[];
  readonly name: string | undefined;
  readonly type: string | undefined;
  readonly body: string;
  /** Signed and unaltered: bundle and body are those of the protocol. */
  readonly isGood: boolean;
}

/** Requests of these protocols. */
export function requests(...protocols: readonly Judged[]): fc.Arbitrary<MadeRequest> {
  return fc.record({
    protocol: fc.constantFrom(...protocols),
    method: fc.oneof({ weight: 4, arbitrary: fc.constant('POST') }, fc.constantFrom('GET', 'PUT', 'DELETE')),
    bundles: fc.array(bundles, { maxLength: 2 }),
    name: fc.option(fc.constantFrom('search', 'fetch'), { nil: undefined, freq: 3 }),
    type: fc.constantFrom(undefined, 'application/json', 'application/json; charset=utf-8', 'text/plain'),
    body: bodies,
    isGood: fc.boolean(),
  });
}

const GOOD = {
  http: { bundle: () => mcpBundle(), body: httpCall },
  mcp: { bundle: () => mcpBundle(), body: toolCall() },
  a2a: { bundle: () => a2aBundle(), body: a2aCall() },
};

/** The request as it is sent, with invocations that were not used yet. */
export function attemptOf({
  protocol,
  method,
  isGood,
  bundles: made,
  name,
  type,
  body,
}: MadeRequest): Attempt {
  const good = GOOD[protocol];
  return {
    method,
    body: isGood ? good.body : body,
    headers: [
      ...(isGood ? [good.bundle] : made).map((make) => ['X-DRS-Bundle', make()] as const),
      ...(name === undefined ? [] : [['Mcp-Name', name] as const]),
      ...(type === undefined ? [] : [['Content-Type', type] as const]),
    ],
  };
}
