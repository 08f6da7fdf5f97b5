import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CONTEXT_HEADERS,
  contextHeaders,
  NO_CONTEXT,
  decodeHeaderText,
  passHeaders,
  encodeHeaderText,
} from '../../src/gate/context.js';
import { openRequest } from '../../src/gate/open.js';
import { readHeaders, methodOf, shorten, valuesOf } from '../../src/gate/request.js';
import { decodeCarried, findBundle } from '../../src/gate/carriers.js';
import { invoke, makeChain, sha256 } from '../support/chain.js';
import { contextIn } from './decide.js';
import { CONTEXT } from './transports.js';

describe('headers of a described request', () => {
  it('are those that the gate reads, in any case, each with all its values in order', () => {
    const headers = readHeaders({
      'X-DRS-Bundle': ['a', 1, 'b'],
      'x-drs-bundle': 'c',
      'MCP-Name': '',
      Authorization: 'secret',
      [`x-drs-bundle${' '.repeat(40)}`]: 'd',
      'mcp-method': null,
    });
    expect(valuesOf(readHeaders({ Mcp_Name: ' a \t', 'mcp-name': '\u00a0b' }), 'mcp-name')).toEqual([
      'a',
      '\u00a0b',
    ]);
    expect(valuesOf(readHeaders({ 'mcp-name': ['', ' ', '\t  '] }), 'mcp-name')).toEqual(['', '', '']);
    const parameter = `Mcp-Param-${'x'.repeat(100)}`;
    expect(valuesOf(readHeaders({ [parameter]: 'a', mcp_param_b: 'c' }), 'mcp-param-*')).toEqual(['a', 'c']);
    expect(Object.fromEntries(headers)).toEqual({
      'x-drs-bundle': 'a\nb\nc',
      'mcp-name': '',
      authorization: 'secret',
    });
    expect(valuesOf(headers, 'x-drs-bundle')).toEqual(['a', 'b', 'c']);
    expect(valuesOf(headers, 'mcp-name')).toEqual(['']);
    expect(valuesOf(headers, 'mcp-method')).toEqual([]);
  });
});

describe('the method that a request is checked as', () => {
  const methodIn = (headers: object, method = 'POST', path: string | null = '/a?b') =>
    methodOf({ method, target: path, headers: readHeaders({ ...headers }) });

  it('is its own, if no header names another', () => {
    expect(methodIn({})).toBe('POST');
    expect(methodIn({ 'X-Forwarded-Method': 'POST', 'X-HTTP-Method': ['POST', 'POST'] })).toBe('POST');
    expect(methodIn({ 'Mcp-Method': 'tools/call' }, 'GET')).toBe('GET');
  });
  it.each([
    'X-Forwarded-Method',
    'X-Original-Method',
    'X-HTTP-Method-Override',
    'X-HTTP-Method',
    'X-Method-Override',
  ])('is none where %s names another', (name) => {
    expect(methodIn({ [name]: 'DELETE' })).toBe('POST or DELETE');
    expect(methodIn({ [name]: ['POST', 'post', ''] })).toBe('POST or post or ');
  });
  it.each(['X-Original-URL', 'X-Rewrite-Url'])('is none where %s names another path', (name) => {
    expect(methodIn({ [name]: '/a?b' })).toBe('POST');
    for (const other of ['/a', '/a?c', '', 'https://x.example/a?b'])
      expect(methodIn({ [name]: ['/a?b', other] })).toBe(`POST with ${name.toLowerCase()}: ${other}`);
    expect(methodIn({ [name]: '/a' }, 'GET', null)).toBe(`GET with ${name.toLowerCase()}: /a`);
  });
  it.each(['Script-Name', 'SCRIPT_NAME', 'X-Script-Name', 'Path-Info', 'PATH_INFO'])(
    'is none where %s takes something off the path',
    (name) => {
      const canonical = name.toLowerCase().replace('_', '-');
      for (const mount of ['/a', '/a?b', ''])
        expect(methodIn({ [name]: mount })).toBe(`POST with ${canonical}: ${mount}`);
    },
  );
  it('names each other one', () => {
    expect(methodIn({ 'X-Method-Override': 'PUT', 'X-Forwarded-Method': 'GET' }, 'HEAD')).toBe(
      'HEAD or GET or PUT',
    );
  });
});

describe('a bundle that cannot be decoded', () => {
  const messageOf = (encoded: string) => {
    const decoded = decodeCarried('mcp', encoded);
    return 'code' in decoded ? `${decoded.code}: ${decoded.message}` : decoded;
  };
  const RECEIPT = /^MALFORMED_BUNDLE: this is one receipt \(a JWT\), expected a bundle: all receipts and the/;

  it('is named if it is JSON or one receipt', () => {
    expect(messageOf('e30')).toEqual({ bundle: {} });
    expect(messageOf('{"a":1}')).toBe(
      'MALFORMED_BUNDLE: the bundle is JSON, expected that JSON in base64url, as encodeBundle() writes it',
    );
    expect(messageOf('a-b.c_d.e1')).toMatch(RECEIPT);
  });
  it.each(['*', '*a.b.c', 'a.b.c*', 'a.b', 'a.b.c.d', '.a.b.c', 'a..c', 'a.b.', 'x{'])(
    'is no receipt if it is %s',
    (encoded) => {
      expect(messageOf(encoded)).toMatch(/^MALFORMED_BUNDLE: ./);
      expect(messageOf(encoded)).not.toMatch(/receipt|encodeBundle/);
    },
  );
});

describe('the header of a bundle', () => {
  const bundle = Buffer.from('{}').toString('base64url');
  const found = (protocol: 'http' | 'mcp', value: unknown, meta: object = {}) => {
    const opened = openRequest(
      protocol,
      {
        method: 'POST',
        target: null,
        headers: readHeaders({ 'X-DRS-Bundle': value }),
        body: {
          kind: 'text',
          text: JSON.stringify({
            ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
            params: { name: 'search', _meta: meta },
          }),
        },
      },
      { routes: 'any' },
    );
    if (opened.kind === 'pass') throw new Error('it passes');
    return opened.kind === 'check' ? opened.encoded : opened.failure.code;
  };

  it('is the same as in every other carrier, or both are named', () => {
    const clash = (protocol: 'http' | 'mcp') => {
      const failure = findBundle(protocol, new Map([['x-drs-bundle', 'e30']]), { 'X-DRS-Bundle': 'W10' });
      return typeof failure === 'string' ? failure : failure.message;
    };
    const named = 'the bundles in the header X-DRS-Bundle and in';
    expect(clash('http')).toBe(`${named} the envelope are not the same`);
    expect(clash('mcp')).toBe(`${named} params._meta are not the same`);
  });

  it.each([` ${bundle}`, `${bundle} `, `\t ${bundle} \t`])(
    'may have spaces and tabs around it: %j',
    (value) => {
      expect(found('http', value)).toBe(bundle);
      expect(found('mcp', value, { 'X-DRS-Bundle': bundle })).toBe(bundle);
    },
  );

  it.each<[string, unknown, string]>([
    ['another white space', `\u00a0${bundle}`, 'MALFORMED_BUNDLE'],
    ['a line break', `${bundle}\n`, 'MALFORMED_BUNDLE'],
    ['a space inside', 'e3 0', 'MALFORMED_BUNDLE'],
    ['nothing else', ' \t', 'MALFORMED_BUNDLE'],
    ['a second one', [` ${bundle}`, bundle], 'MULTIPLE_BUNDLES'],
  ])('may not have %s', (_, value, code) => {
    expect(found('http', value)).toBe(code);
  });

  it('has no space around it in _meta', () => {
    expect(found('mcp', bundle, { 'X-DRS-Bundle': ` ${bundle}` })).toBe('MULTIPLE_BUNDLES');
    expect(found('mcp', [], { 'X-DRS-Bundle': ` ${bundle}` })).toBe('MALFORMED_BUNDLE');
  });
});

describe('text in a header', () => {
  it.each([
    ['search', 'search'],
    ['a', 'a'],
    ['a b', 'a b'],
    ['~!', '~!'],
    ['', '=?base64??='],
    [' a', '=?base64?IGE=?='],
    ['a ', '=?base64?YSA=?='],
    ['a\nb', '=?base64?YQpi?='],
    ['a\u007f', '=?base64?YX8=?='],
    ['Zürich', '=?base64?WsO8cmljaA==?='],
    ['=?base64?YQ==?=', '=?base64?PT9iYXNlNjQ/WVE9PT89?='],
    ['=?x', '=?base64?PT94?='],
    ['x'.repeat(512), 'x'.repeat(512)],
    ['x'.repeat(513), `=?sha256?${sha256('x'.repeat(513)).slice(7)}?=`],
    ['é'.repeat(256), `=?base64?${Buffer.from('é'.repeat(256)).toString('base64')}?=`],
    ['é'.repeat(257), `=?sha256?${sha256('é'.repeat(257)).slice(7)}?=`],
  ])('%j is written %j', (text, header) => {
    expect(encodeHeaderText(text)).toBe(header);
  });

  it('is read as it was written, if it is not too long for a header', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
        const header = encodeHeaderText(text);
        expect(header).toMatch(/^[ -~]+$/);
        if (!header.startsWith('=?sha256?')) expect(decodeHeaderText(header)).toBe(text);
      }),
    );
  });

  it.each([
    ['=?base64?*?=', null],
    ['=?base64?YQ?=', null],
    ['=?base64?YR==?=', null],
    ['=?base64?/w==?=', null],
    ['=?base64?=', '=?base64?='],
    ['=?base64?YQ==', '=?base64?YQ=='],
    ['YQ==?=', 'YQ==?='],
    ['=?base64??=', ''],
    ['x=?base64?YQ==?=', 'x=?base64?YQ==?='],
    ['=?base64?YQ==?=x', '=?base64?YQ==?=x'],
  ])('%j is read as %j', (header, text) => {
    expect(decodeHeaderText(header)).toBe(text);
  });
});

describe('the headers that describe a call', () => {
  const contextWith = (args: object, binding: 'match' | null) =>
    contextIn(invoke(makeChain(2), { args }), binding);

  it('are set, or removed where a caller could forge them', () => {
    const STATED = ['x-drs-session-id', 'x-drs-correlation-id', 'x-drs-approved-by'];
    const context = contextWith({ tool: 'Zürich' }, 'match');
    const changes = contextHeaders(context, 'token');
    expect(changes).toEqual({
      set: {
        'X-DRS-Root-Principal': context.root_principal,
        'X-DRS-Root-Type': 'human',
        'X-DRS-Agent': context.agent,
        'X-DRS-Chain-Depth': '2',
        'X-DRS-Command': '/mcp/tools/call',
        'X-DRS-Tool': '=?base64?WsO8cmljaA==?=',
        'X-DRS-Invocation': 'inv:0b1c2d3e',
        'X-DRS-Binding': 'match',
        'X-DRS-Context': 'token',
      },
      remove: ['x-drs-root-name', ...STATED, 'x-drs-observed'],
    });
    const without = contextHeaders(contextWith({}, null), null);
    expect(without.remove).toEqual([
      ...['x-drs-root-name', 'x-drs-tool', ...STATED, 'x-drs-context', 'x-drs-observed'],
    ]);
    expect(without.set).toMatchObject({ 'X-DRS-Binding': 'none' });
    expect(
      [...Object.keys(without.set).map((name) => name.toLowerCase()), ...without.remove].toSorted(),
    ).toEqual(CONTEXT_HEADERS.map((name) => name.toLowerCase()).toSorted());
    expect(NO_CONTEXT.remove).toEqual(CONTEXT_HEADERS.map((name) => name.toLowerCase()));
    expect(NO_CONTEXT.remove.toSorted()).toEqual([...CONTEXT].sort());
    expect(passHeaders(undefined)).toBe(NO_CONTEXT);
    const remove = NO_CONTEXT.remove.filter((name) => name !== 'x-drs-observed');
    expect(passHeaders('EXPIRED')).toEqual({ set: { 'X-DRS-Observed': 'EXPIRED' }, remove });
  });

  it.each([
    [['Alice'], 'Alice'],
    [['Alice', 'Zoë'], `=?base64?${Buffer.from('Alice, Zoë').toString('base64')}?=`],
    // One person with two passkeys.
    [['Alice', 'Alice', 'Bob'], 'Alice, Bob'],
    [['=?base64?'], `=?base64?${Buffer.from('=?base64?').toString('base64')}?=`],
    [
      ['x'.repeat(200), 'y'.repeat(200), 'z'.repeat(200)],
      expect.stringMatching(/^=\?sha256\?[0-9a-f]{64}\?=$/),
    ],
  ])('name who approved it: %j', (names, expected) => {
    const approval = { statement: 'A'.repeat(43), by: names.map((name) => ({ name, at: 1_700_000_000 })) };
    const changes = contextHeaders({ ...contextWith({}, 'match'), approval }, null);
    expect(changes.set['X-DRS-Approved-By']).toEqual(expected);
    expect(changes.remove).not.toContain('x-drs-approved-by');
  });
});

describe('headers', () => {
  it('are found by any spelling of their name, all values in their order', () => {
    const lookup = readHeaders({
      'X-DRS-BUNDLE': ['a', 'b'],
      'x-drs-bundle': 'c',
      'Mcp-Name': [1, undefined],
    });
    expect(valuesOf(lookup, 'x-drs-bundle')).toEqual(['a', 'b', 'c']);
    expect(valuesOf(lookup, 'mcp-name')).toEqual([]);
    expect(valuesOf(lookup, 'mcp-method')).toEqual([]);
  });
});

it('a name that a caller chose is cut at 200 characters', () => {
  expect(shorten('x'.repeat(200))).toBe('x'.repeat(200));
  expect(shorten('x'.repeat(201))).toBe(`${'x'.repeat(200)}…`);
  expect(shorten(5)).toBeNull();
});
