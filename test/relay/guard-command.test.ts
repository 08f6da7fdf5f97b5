import { afterEach, describe, expect, it, vi } from 'vitest';
import { listen } from '../middleware/http.js';
import { toCommandError } from '../../src/cli/command-error.js';
import { guard, type GuardOptions } from '../../src/cli/guard.js';

const named: GuardOptions = { trustedRoot: ['any'], toolServer: 'any' };
const proxy: GuardOptions = { ...named, to: 'http://127.0.0.1:1/mcp' };
const none: readonly string[] = [];

type Row = readonly [
  name: string,
  command: readonly string[],
  options: GuardOptions,
  env: Readonly<Record<string, string>>,
  message: string,
];
const WRONG: readonly Row[] = [
  ['without a tool server', none, named, {}, 'there is no tool server'],
  ['with two', ['x'], proxy, {}, 'there are two tool servers'],
  ['without a root', ['x'], { toolServer: 'any' }, {}, 'there is no trusted root'],
  ['with any root beside one', ['x'], { ...named, trustedRoot: ['any', 'x'] }, {}, 'expected any alone'],
  ['with a root that is none', ['x'], { ...named, trustedRoot: ['me'] }, {}, '(DRS_TRUSTED_ROOTS) is "me"'],
  ['without a name', ['x'], { trustedRoot: ['any'] }, {}, 'the tool server has no name'],
  [
    'with a typing error',
    ['x'],
    named,
    { DRS_TRUSTED_ROOT: 'x' },
    'mean --trusted-root (DRS_TRUSTED_ROOTS)?',
  ],
  ['with a variable of the service', ['x'], named, { DRS_GRPC_PORT: '1' }, 'DRS_GRPC_PORT is not a variable'],
  ['with a variable of nobody', ['x'], named, { DRS_ACME: '1' }, 'DRS_ACME is not a variable'],
  ['with a log in the way', ['x'], named, { DRS_DECISION_LOG: '-' }, 'DRS_DECISION_LOG is "-"'],
  ['over stdio with an address', ['x'], { ...named, listen: 'x:1' }, {}, '--listen is for a tool server'],
  ['on no address', none, { ...proxy, listen: '8443' }, {}, '--listen is "8443"'],
  ['with routes of another protocol', none, { ...proxy, routes: 'x' }, {}, '--routes is for --protocol http'],
  ['over http without routes', none, { ...proxy, protocol: 'http' }, {}, 'there is no table of routes'],
  ['with a password', none, { ...named, to: 'http://a:secret@x/' }, {}, 'expected an http or https URL'],
  ['with a query', none, { ...proxy, to: 'http://x/?a', protocol: 'a2a' }, {}, 'without a query'],
  ['with a variable that is none', ['x'], named, { DRS_LOG_REFUSALS: 'me' }, 'DRS_LOG_REFUSALS is "me"'],
  ['with an empty name', ['x'], { ...named, toolServer: '' }, {}, '(DRS_SERVER_IDENTITY) is empty'],
  ['without its routes', none, { ...proxy, protocol: 'http', routes: 'no/file' }, {}, 'is "no/file"'],
  ['with a program that is not there', ['./no-such-program'], named, {}, 'there is no such program'],
];

describe('drs-verify guard', () => {
  afterEach(() => vi.unstubAllEnvs());

  it.each(WRONG)('does not start %s', async (_, command, options, env, message) => {
    for (const [name, value] of Object.entries({ DRS_LOG_LEVEL: 'silent', ...env })) vi.stubEnv(name, value);
    const error = toCommandError(await guard(command, options).catch((thrown: unknown) => thrown));
    expect(error).toMatchObject({ exitCode: 2, message: expect.stringContaining(message) as unknown });
    expect(error?.message).not.toContain('secret');
  });

  it('names its own options where its address is taken', async () => {
    const other = await listen((_req, res) => res.end());
    const address = new URL(other.url).host;
    const error = await guard(none, { ...proxy, listen: address }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      message: expect.stringMatching(
        `^cannot listen on ${address}: .*choose another address \\(--listen .*$`,
      ) as unknown,
      hint: 'check what the options and variables name (--check)',
    });
    await other.close();
  });
});
