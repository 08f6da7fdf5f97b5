import { afterAll, describe, expect, it } from 'vitest';
import { bodyOfText } from '../../src/gate/carriers.js';
import {
  echoOf,
  mayHaveBody,
  openCall,
  openRpc,
  passesMcpHttp,
  readRpcMessage,
} from '../../src/gate/json-rpc.js';
import { readHeaders, type RequestBody } from '../../src/gate/request.js';
import { newGate, verifier } from './decide.js';

afterAll(() => verifier.close());

const escaped = (name: string) =>
  name.replaceAll(/./g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`);

describe('a message that is not strict JSON', () => {
  it.each([
    ['jsonrpc twice, once in escapes', `{"${escaped('jsonrpc')}":"2.0","jsonrpc":"2.0","method":"ping"}`],
    ['method twice, once in escapes', `{"jsonrpc":"2.0","method":"ping","${escaped('method')}":"ping"}`],
    [
      'method twice behind objects and arrays',
      '{"jsonrpc":"2.0","params":{"a":[{"b":[]}],"c":{}},"method":"ping","method":"tools/call"}',
    ],
    [
      'method twice around an array',
      '{"jsonrpc":"2.0","method":"ping","params":["a",["b"]],"method":"tools/call"}',
    ],
    [
      'method twice behind quotes and brackets in a text',
      '{"jsonrpc":"2.0","x\\"{":"\\\\\\"]}[{","method":"ping","method":"tools/call"}',
    ],
    ['method twice behind spaces', '{ "method" : "ping" , "jsonrpc":"2.0", "method" : "tools/call"}'],
    ['method twice before any space', '{"method"\t\r\n :"ping","jsonrpc":"2.0","method"\n:"tools/call"}'],
  ])('is refused with %s', async (_, body) => {
    expect(await newGate()('mcp', { body })).toMatchObject({
      code: 'INVALID_JSONRPC',
      response: {
        body: { error: { data: { detail: expect.stringContaining('occurs twice') as string } } },
      },
    });
  });

  it.each([
    ['a member twice that the gate does not read', '{"jsonrpc":"2.0","method":"ping","params":1,"params":2}'],
    ['method for a value', '{"jsonrpc":"2.0","method":"ping","params":{"x":"method","x":"jsonrpc"}}'],
    ['method for its id, twice', '{"jsonrpc":"2.0","id":"method","id":"method","method":"ping"}'],
    ['method twice in its params', '{"jsonrpc":"2.0","params":{"method":1,"method":2},"method":"ping"}'],
    ['names in an array', '{"jsonrpc":"2.0","method":"ping","params":["method","method",{"a":1,"a":2}]}'],
    [
      'a name in an array in an object',
      '{"jsonrpc":"2.0","params":[["method"]],"method":"ping","id":1,"id":2}',
    ],
    [
      'a long name that begins like one',
      `{"jsonrpc":"2.0","method":"ping","params":{"method${'x'.repeat(100)}":1,"x":1,"x":2}}`,
    ],
  ])('passes with %s, if it is no call', async (_, body) => {
    expect(await newGate()('mcp', { body })).toEqual({ decision: 'pass' });
  });
});

it.each(['mcp', 'a2a'] as const)(
  'a form without a bundle is refused for what it is: %s',
  async (protocol) => {
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const read = bodyOfText('{"jsonrpc":"2.0","id":1,"method":"tools/call"}', readHeaders(headers));
    expect(await newGate()(protocol, { headers, read })).toMatchObject({
      code: 'MISSING_BUNDLE',
      response: {
        body: {
          error: {
            data: {
              detail: expect.stringContaining('the body is application/x-www-form-urlencoded') as string,
              suggestion: 'Send the message as application/json, in UTF-8.',
            },
          },
        },
      },
    });
  },
);

describe('a message', () => {
  const read = (value: unknown) => readRpcMessage('mcp', { kind: 'value', value });
  it('is told apart from what is none, in words', () => {
    const message = (value: unknown) => {
      const found = read(value);
      return 'failure' in found ? found.failure.message : null;
    };
    expect(message({ jsonrpc: '2.0', method: 'ping' })).toBeNull();
    expect(message({ jsonrpc: '2.0', result: null })).toBeNull();
    expect(message({ jsonrpc: '2.0', error: null })).toBeNull();
    expect(message([1, 2])).toBe('the body is a batch of 2 JSON-RPC messages, expected one');
    expect(message('ping')).toBe('the body is not a JSON object');
    expect(message(null)).toBe('the body is not a JSON object');
    expect(message({ method: 'ping' })).toBe('the member jsonrpc is not "2.0"');
    expect(message(Object.create({ jsonrpc: '2.0', method: 'ping' }))).toBe(
      'the member jsonrpc is not "2.0"',
    );
    expect(message({ jsonrpc: '2.0', id: true, method: 'ping' })).toBe(
      'the id is not a string, a number or null',
    );
    expect(message({ jsonrpc: '2.0' })).toBe('the message has no method');
    expect(message({ jsonrpc: '2.0', method: null })).toBe('the method is not a string');
    expect(message({ jsonrpc: '2.0', METHOD: 'x' })).toBe(
      'the member "METHOD" is none of jsonrpc, id, method, params, result, error',
    );
    const many = { jsonrpc: '2.0', method: 'ping', ['x'.repeat(300)]: 1 };
    expect(message(many)).toMatch(/^the member "x{200}…" is none of/);
    for (const answer of ['result', 'error'])
      expect(message({ jsonrpc: '2.0', method: 'ping', [answer]: null })).toMatch(
        /^the message has a method, and/,
      );
  });

  it('tells whether another parser has read it', () => {
    expect(read({ jsonrpc: '2.0', method: 'ping', id: 1, params: [] })).toEqual({
      ...{ method: 'ping', params: [], id: 1, defect: null, isReparsed: true },
    });
    const text = '{"jsonrpc":"2.0","method":"ping","params":1,"params":2}';
    expect(readRpcMessage('mcp', { kind: 'text', text })).toMatchObject({
      defect: expect.stringContaining('"params" occurs twice') as string,
      isReparsed: false,
    });
  });

  it('is none without a body', async () => {
    const detail = 'the body is not JSON: it is empty';
    for (const protocol of ['mcp', 'a2a'] as const)
      expect(await newGate()(protocol, { read: { kind: 'none' } })).toMatchObject({
        ...{ code: 'INVALID_JSONRPC', response: { body: { error: { data: { detail } } } } },
      });
  });

  it('that is no text says why', () => {
    const found = (text: string) => readRpcMessage('mcp', { kind: 'text', text });
    expect(found('')).toMatchObject({ failure: { message: 'the body is not JSON: it is empty' }, id: null });
    expect(found('{')).toMatchObject({
      failure: { message: expect.stringMatching(/not JSON: .*JSON/) as string },
    });
    expect(found(`[${'[],'.repeat(40_000)}0]`)).toMatchObject({
      failure: {
        code: 'BODY_TOO_LARGE',
        message: expect.stringMatching(/^the body: it holds more/) as string,
      },
      id: null,
    });
  });
});

describe('a request without a message', () => {
  const asked = (method: string, accept: readonly string[] = [], body: RequestBody = { kind: 'none' }) => ({
    ...{ method, target: '/mcp', headers: readHeaders({ accept }), body },
  });

  it.each<[string, string[]]>([
    ['DELETE', []],
    ['OPTIONS', []],
    ['GET', []],
    ['HEAD', []],
    ['GET', ['text/event-stream']],
    ['HEAD', ['text/event-stream']],
    ['GET', ['application/json', 'application/json, Text/Event-Stream;q=0.1, */*']],
  ])('passes to an MCP server: %s, %j', (method, accept) => {
    expect(passesMcpHttp(asked(method, accept))).toBe(true);
  });

  it.each<[string, string[]]>([
    ['GET', ['application/json', 'text/event-streams', 'x-text/event-stream', '*/*']],
    ['POST', ['text/event-stream']],
    ['PUT', ['text/event-stream']],
  ])('does not pass: %s, %j', (method, accept) => {
    expect(passesMcpHttp(asked(method, accept))).toBe(false);
  });

  it.each<[RequestBody, boolean]>([
    [{ kind: 'none' }, false],
    [{ kind: 'text', text: '' }, false],
    [{ kind: 'text', text: ' ' }, true],
    [{ kind: 'value', value: undefined }, true],
    [{ kind: 'unread' }, true],
    [{ kind: 'unusable', reason: 'it is a form' }, true],
    [{ kind: 'too large', reason: 'it is large' }, true],
  ])('passes if a server can find nothing in its body: %j', (body, hasBody) => {
    expect(mayHaveBody(body)).toBe(hasBody);
    for (const method of ['DELETE', 'OPTIONS', 'GET'])
      expect(passesMcpHttp(asked(method, ['text/event-stream'], body))).toBe(!hasBody);
  });

  it('passes to no A2A agent', () => {
    expect(openRpc('mcp', asked('GET', ['text/event-stream']))).toEqual({ kind: 'pass' });
    expect(openRpc('a2a', asked('GET', ['text/event-stream']))).toMatchObject({
      ...{ kind: 'deny', protocol: 'a2a', failure: { code: 'METHOD_NOT_ALLOWED' } },
    });
  });
});

it('a call with a bundle that cannot be read is refused with its own id', () => {
  const call = { id: 7, requested: 'search', encoded: '*', body: { kind: 'unread' } } as const;
  const expected = { command: null, orBelow: false, tool: null };
  expect(openCall('mcp', { ...call, expected })).toMatchObject({
    ...{ kind: 'deny', protocol: 'mcp', id: 7, requested: 'search', failure: { code: 'MALFORMED_BUNDLE' } },
  });
});

describe('the id of an answer', () => {
  it('is no number that may have been rounded', () => {
    for (const id of [2 ** 53, -(2 ** 53)]) {
      expect(echoOf(id, false)).toBe(id);
      expect(echoOf(id, true)).toBeNull();
    }
    for (const id of [7, 2 ** 53 - 1]) expect(echoOf(id, true)).toBe(id);
    for (const id of [Infinity, true]) expect(echoOf(id, false)).toBeNull();
  });

  it('of no message is such a number only if its text is strict', () => {
    const value = { jsonrpc: '1.0', id: 2 ** 53 };
    const text = JSON.stringify(value);
    const twice = text.replace('}', ',"x":1,"x":1}');
    expect(readRpcMessage('mcp', { kind: 'text', text })).toMatchObject({ id: 2 ** 53 });
    expect(readRpcMessage('mcp', { kind: 'text', text: twice })).toMatchObject({
      failure: { code: 'INVALID_JSONRPC' },
      id: null,
    });
    expect(readRpcMessage('mcp', { kind: 'value', value })).toMatchObject({
      failure: { code: 'INVALID_JSONRPC' },
      id: null,
    });
  });
});

it('reads a message with more large numbers than strict JSON may have, which passes if it is no call', () => {
  const text = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":[${Array(5_000).fill('9007199254740992').join()}]}}`;
  expect(readRpcMessage('mcp', { kind: 'text', text })).toMatchObject({
    method: 'tools/list',
    defect: expect.stringContaining('more than 3072 numbers') as string,
  });
});
