import { describe, expect, it } from 'vitest';
import { CONTEXT_HEADERS, contextHeaders, NO_CONTEXT } from '../../src/gate/context.js';
import { CONTEXT } from './transports.js';

const ALL = [...CONTEXT].sort();

describe('a context header of the caller', () => {
  it('is removed from a request that passes, whichever it is', () => {
    expect(CONTEXT_HEADERS.map((name) => name.toLowerCase()).sort()).toEqual(ALL);
    expect(NO_CONTEXT.set).toEqual({});
    expect([...NO_CONTEXT.remove].sort()).toEqual(ALL);
  });

  it.each([
    ['search', 'a.b.c', undefined],
    ['search', null, 'alice@example.com'],
    [null, 'a.b.c', undefined],
    [null, null, 'Zoë'],
  ])('is replaced or removed from an allowed call, with %s, %s and %s', (tool, token, name) => {
    const context = {
      root_principal: 'did:key:zA',
      chain_depth: 2,
      agent: 'did:key:zB',
      command: '/mcp/tools/call',
      tool,
      invocation: 'inv:1',
      receipts: ['dr:1', 'dr:2'],
      root_type: null,
      expires_at: null,
      ...(name !== undefined && { root_name: name }),
    };
    const { set, remove } = contextHeaders(context, token);
    expect([...Object.keys(set).map((name) => name.toLowerCase()), ...remove].sort()).toEqual(ALL);
    expect(set).toMatchObject({ 'X-DRS-Root-Principal': 'did:key:zA', 'X-DRS-Agent': 'did:key:zB' });
    expect(set['X-DRS-Root-Name']).toBe(name === 'Zoë' ? '=?base64?Wm/Dqw==?=' : name);
    expect([set['X-DRS-Tool'], set['X-DRS-Context']]).toEqual([tool ?? undefined, token ?? undefined]);
  });
});
