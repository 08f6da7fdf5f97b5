import { describe, expect, it } from 'vitest';
import { FRONT_END } from '../support/front-end.js';
import { problemsOf } from '../service/problems-of.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { runToExit, startService, type Environment } from '../support/service.js';

const HOOK = new URL('../support/hide-package.mjs', import.meta.url).href;
const without = (name: string, says = ''): Environment => ({
  NODE_OPTIONS: `--import ${HOOK}`,
  HIDDEN_PACKAGE: name,
  HIDDEN_PACKAGE_SAYS: says,
});

/** The levels and messages of the lines about the front end, and what `listening` says. */
async function choiceOf(env: Environment, start = startServiceHere) {
  const service = await start({ WORKER_THREADS: '0', ...env });
  try {
    expect((await service.post('/verify', {})).status).toBe(200);
    const lines = service.log.filter(({ msg }) => String(msg).startsWith('the front end is'));
    const listening = service.log.find(({ msg }) => msg === 'listening');
    return [...lines.map(({ level, msg }) => `${String(level)} ${String(msg)}`), listening?.['frontEnd']];
  } finally {
    expect(await service.stop()).toBe(0);
  }
}

describe('FRONT_END', () => {
  if (FRONT_END === 'uws') {
    it.each(['auto', 'uws'])('is uWebSockets.js where it loads: %s', async (wanted) => {
      expect(await choiceOf({ FRONT_END: wanted })).toEqual([
        '30 the front end is uWebSockets.js: it loads; it answers HTTP/1.0 with 505, which FRONT_END=node speaks',
        'uws',
      ]);
    });
  }

  it('is node:http where it is asked for', async () => {
    expect(await choiceOf({ FRONT_END: 'node' })).toEqual([
      '30 the front end is node:http: FRONT_END asks for it',
      'node',
    ]);
  });

  // Packages of what is off are not missed, either.
  it('is node:http where uWebSockets.js is not installed, nor @grpc/grpc-js and protobufjs', async () => {
    const optional = ['uWebSockets.js', '@grpc/grpc-js', 'protobufjs'].join();
    expect(await choiceOf({ FRONT_END: 'auto', ...without(optional) }, startService)).toEqual([
      '30 the front end is node:http: uWebSockets.js is not installed; `npm install uWebSockets.js@npm:uwebsockets@3.0.6` adds it',
      'node',
    ]);
  });

  it('is node:http where uWebSockets.js does not load, with a warning that says why', async () => {
    const says = "It supports only some releases\n\nError: libc.so.6: version `GLIBC_2.38' not found";
    expect(await choiceOf({ FRONT_END: 'auto', ...without('uWebSockets.js', says) }, startService)).toEqual([
      '40 the front end is node:http: uWebSockets.js does not load ("Which front end" in docs/operations.md says where): ' +
        "libc.so.6: version `GLIBC_2.38' not found",
      'node',
    ]);
  });

  it('that cannot be had keeps the service from starting', async () => {
    const { code, stderr } = await runToExit({ FRONT_END: 'uws', ...without('uWebSockets.js') });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /FRONT_END is uws; set it to auto or node, since uWebSockets\.js is not installed; `npm install uWebSockets\.js@\S+` adds it/,
      ),
    ]);
    expect(problemsOf({ FRONT_END: 'nginx' })).toEqual([
      expect.stringMatching(/FRONT_END is "nginx": .*"uws"/),
    ]);
  });
});

describe('REPLAY_PROTECTION=redis', () => {
  it('without the package says which one to add', async () => {
    const { code, stderr } = await runToExit({ REPLAY_PROTECTION: 'redis', ...without('redis') });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/is not installed; `npm install redis@6\.3\.1` adds it["\n]/),
    ]);
  });
});
