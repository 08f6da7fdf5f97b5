import { describe, expect, it } from 'vitest';
import { DrsClient } from '../../src/client/index.js';
import { drsA2a, drsExtension } from '../../src/middleware/a2a/index.js';
import {
  createMemoryReplayStore,
  drsFetch,
  drsMiddleware,
  openRedisReplayStore,
  signFetch,
} from '../../src/middleware/index.js';
import { drsHono } from '../../src/middleware/hono/index.js';
import { drsMcp, signCalls } from '../../src/middleware/mcp/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { OPEN, OPEN_ROUTE } from './call.js';

/** Issue 16 items 1 and 4: what opens something is said in so many words, and a slip is an error. */
const verifier = { verify: () => Promise.reject(new Error('not called')) };

const HTTP: readonly (readonly [string, (options: object) => unknown])[] = [
  ['drsMiddleware', (options) => drsMiddleware(options as never)],
  ['drsFetch', (options) => drsFetch(options as never, () => new Response())],
  ['drsHono', (options) => drsHono(options as never)],
];
const ALL = [
  ...HTTP,
  ['drsMcp', (options: object) => drsMcp(options as never)],
  ['drsA2a', (options: object) => drsA2a(options as never)],
] as const;

const problemsOf = (make: () => unknown): string[] => {
  try {
    make();
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError);
    return (error as TypeError).message.split('\n');
  }
  return [];
};

describe.each(ALL)('%s', (name, make) => {
  const isRoute = HTTP.some(([other]) => other === name);
  const open = isRoute ? OPEN_ROUTE : OPEN;

  it('takes options that say what they open', () => {
    expect(problemsOf(() => make({ verifier, ...open }))).toEqual([]);
    expect(
      problemsOf(() => make({ ...open, verifyUrl: new URL('http://127.0.0.1:1'), onError: undefined })),
    ).toEqual([]);
  });

  it.each(['trustedRoots', 'serverIdentity', 'replayStore'])('needs %s to be said', (option) => {
    expect(problemsOf(() => make({ verifier, ...open, [option]: undefined }))).toEqual([
      expect.stringMatching(new RegExp(`^${option} is missing: expected .*'(any|none)'`)),
    ]);
  });

  it.each([
    [{ verifier: createVerifier }, 'verifier is a function: expected what createVerifier() or'],
    [
      { replayStore: 'memory' },
      'replayStore is "memory": expected a store such as createMemoryReplayStore()',
    ],
    [{ replayStore: createMemoryReplayStore }, 'replayStore is a function: expected a store'],
    [{ trustedRoots: [] }, 'trustedRoots: expected'],
    [{ trustedRoots: ['did:example:1'] }, 'trustedRoots: expected'],
    [{ trustedRoots: 'did:key:z6Mk' }, 'trustedRoots is "did:key:z6Mk": expected'],
    [{ trustedRoot: ['x'] }, 'trustedRoot is not an option here, expected one of verif'],
    [{ serverIdentity: '' }, 'serverIdentity is "": expected'],
    [{ replayScope: '' }, 'replayScope is "": expected'],
    [{ replayWindowSecs: -1 }, 'replayWindowSecs is -1: expected'],
    [{ clockSkewSecs: '60' }, 'clockSkewSecs is "60": expected'],
    [{ optional: 'false' }, 'optional is "false": expected true or false'],
    [{ onToolCall: {} }, 'onToolCall is an object: expected a function'],
    [{ onRefused: true }, 'onRefused is true: expected a function'],
    [{ eventSink: () => undefined }, 'eventSink is a function: expected a stream'],
    [{ verifier: undefined }, 'give exactly one of verifier'],
    [{ verifyUrl: 'http://127.0.0.1' }, 'give exactly one of verifier'],
    [{ verifier: undefined, verifyUrl: 'ftp://x' }, 'verifyUrl is "ftp://x": expected an http or https URL'],
    [{ replayStore: Promise.resolve() }, 'replayStore is a promise (await it): expected a store'],
    [{ verifier: null }, 'verifier is null: expected what createVerifier()'],
  ])('refuses %o', (options, problem) => {
    expect(problemsOf(() => make({ verifier, ...open, ...options }))).toEqual([
      expect.stringContaining(problem),
    ]);
  });

  it('names every problem at once', () => {
    expect(problemsOf(() => make({ verifer: verifier })).length).toBeGreaterThanOrEqual(isRoute ? 6 : 5);
    expect(problemsOf(() => make(undefined as never))[0]).toMatch(
      /^the options are missing, expected an object with verifier, /,
    );
  });
});

describe.each(HTTP)('%s', (_, make) => {
  it('needs to know which calls its route serves', () => {
    expect(problemsOf(() => make({ verifier, ...OPEN }))).toEqual([
      expect.stringContaining("tool: 'any' leaves it to the handler"),
    ]);
    for (const route of [
      { tool: 'search' },
      { command: '/tools' },
      { tool: () => 'x', command: () => '/x' },
    ]) {
      expect(problemsOf(() => make({ verifier, ...OPEN, ...route }))).toEqual([]);
    }
  });

  it.each([
    [{ command: '/tools/' }, 'command is "/tools/": expected a path such as "/tools/weather"'],
    [{ command: 'tools' }, 'command is "tools"'],
    [{ tool: '' }, 'tool is ""'],
    [{ tool: ['search'] }, 'tool: expected the name'],
    [{ bindingMode: 'strict' }, 'bindingMode is "strict"'],
    [{ maxBodyBytes: 0 }, 'maxBodyBytes is 0'],
  ])('refuses %o', (options, problem) => {
    expect(problemsOf(() => make({ verifier, ...OPEN_ROUTE, ...options }))).toEqual([
      expect.stringContaining(problem),
    ]);
  });
});

it('protection of MCP and A2A decides tool and command by the message', () => {
  for (const make of [drsMcp, drsA2a]) {
    expect(problemsOf(() => make({ verifier, ...OPEN, command: '/x' } as never))).toEqual([
      expect.stringContaining('command is not an option here'),
    ]);
  }
  expect(problemsOf(() => drsMcp({ verifier, ...OPEN, protect: 'search' } as never))).toEqual([
    'protect is "search": expected a function of a tool name',
  ]);
});

it.each<[string, (options: object) => unknown]>([
  ['carrier', (options) => signCalls(null as never, null as never, options)],
  ['carriers', (options) => signFetch(null as never, options)],
  ['askat', (options) => drsExtension({ serverIdentity: 'https://a.example', ...options })],
  ['timeout', (options) => new DrsClient('http://127.0.0.1:1', options)],
  ['maxEntry', (options) => createMemoryReplayStore(options)],
])('an option that nobody reads is refused: %s', (name, make) => {
  expect(problemsOf(() => make({ [name]: 'x' }))).toEqual([
    expect.stringMatching(`^${name} is not an option here, expected one of \\w`),
  ]);
  expect(problemsOf(() => make({ polocy: 1, nosuch: 2 }))).toHaveLength(2);
});

it('what is passed in place of an object is said, and not shown', async () => {
  await expect(openRedisReplayStore('redis://:secret@127.0.0.1' as never)).rejects.toThrow(
    /^the options are a string, expected an object with url, /,
  );
  expect(problemsOf(() => createMemoryReplayStore(null as never))).toEqual([
    expect.stringMatching(/^the options are null, expected an object with /),
  ]);
  expect(problemsOf(() => drsFetch({ verifier, ...OPEN_ROUTE }, undefined as never))).toEqual([
    'drsFetch(options, handler): the handler is missing, expected a function',
  ]);
  expect(problemsOf(() => drsMcp({ verifier, ...OPEN }).protectServer({} as never))).toEqual([
    'this is no MCP endpoint: it has no connect(); pass a McpServer, Server or Client of the SDK',
  ]);
});
