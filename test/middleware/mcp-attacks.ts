import { encode, liveCall, liveChain, now } from './call.js';

export const chain = liveChain();
export const principal = chain.parties[0]?.did;
export const search = { tool: 'search', query: 'tea' };
export const KEY = 'X-DRS-Bundle';
export const call = (args: object, bundle: object | string | undefined, key = KEY) => {
  const { tool, ...rest } = args as { tool: string };
  const meta = bundle === undefined ? {} : { [key]: typeof bundle === 'string' ? bundle : encode(bundle) };
  return { name: tool, arguments: rest, _meta: meta };
};
export const invalid = (code: string) => ({ valid: false, code });
const mismatch = (binding: string) => ({
  valid: true,
  binding,
  code: 'BINDING_MISMATCH',
});

/** What must never reach a tool: name, parameters of the call, status and data of the error. */
export const ATTACKS: readonly (readonly [string, () => object, number, { readonly code: string }])[] = [
  ['no bundle', () => call(search, undefined), 403, { code: 'MISSING_BUNDLE' }],
  ['bad base64url', () => call(search, '{}'), 400, { code: 'MALFORMED_BUNDLE' }],
  [
    'two values joined by a comma',
    () => call(search, [1, 2].map(() => encode(liveCall(chain, search))).join(',')),
    400,
    { code: 'MALFORMED_BUNDLE' },
  ],
  ['bad JSON', () => call(search, encode('{')), 400, { code: 'MALFORMED_BUNDLE' }],
  [
    'a bundle that is no string',
    () => ({ ...call(search, undefined), _meta: { [KEY]: liveCall(chain, search) } }),
    400,
    { code: 'MALFORMED_BUNDLE' },
  ],
  [
    'two different bundles',
    () => ({
      ...call(search, undefined),
      _meta: {
        [KEY]: encode(liveCall(chain, search)),
        'xyz.okeyamy.drs/bundle': encode(liveCall(chain, search)),
      },
    }),
    400,
    { code: 'MULTIPLE_BUNDLES' },
  ],
  [
    'an invalid chain',
    () => call(search, liveCall({ ...chain, receipts: chain.receipts.toReversed() }, search)),
    403,
    invalid('CHAIN_BREAK'),
  ],
  [
    'a tool that is not allowed',
    () => call({ tool: 'delete' }, liveCall(chain, { tool: 'delete' })),
    403,
    invalid('POLICY_VIOLATION'),
  ],
  [
    'an invocation for another command',
    () => call(search, liveCall(liveChain(2, { cmd: '/a2a' }), search, { cmd: '/a2a/search' })),
    403,
    invalid('COMMAND_MISMATCH'),
  ],
  [
    'the arguments changed after signing',
    () => call({ ...search, query: 'coffee' }, liveCall(chain, search)),
    403,
    mismatch('mismatch'),
  ],
  [
    'the tool swapped',
    () => call({ ...search, tool: 'fetch' }, liveCall(chain, search)),
    403,
    mismatch('mismatch'),
  ],
  [
    'an extra argument',
    () => call({ ...search, limit: 1 }, liveCall(chain, search)),
    403,
    mismatch('mismatch'),
  ],
  [
    'an argument left out',
    () => call({ tool: 'search' }, liveCall(chain, search)),
    403,
    mismatch('mismatch'),
  ],
  [
    'an argument named tool',
    () => ({ ...call({ ...search, tool: 'fetch' }, liveCall(chain, search)), arguments: search }),
    400,
    { code: 'RESERVED_ARGUMENT' },
  ],
  [
    'a number beyond 2^53',
    () => call({ tool: 'search', n: 2 ** 53 }, liveCall(chain, { tool: 'search', n: 2 ** 53 })),
    403,
    mismatch('invalid_body'),
  ],
  [
    'a stale invocation',
    () => call(search, liveCall(chain, search, { iat: now() - 901 })),
    409,
    invalid('INVOCATION_STALE'),
  ],
];
