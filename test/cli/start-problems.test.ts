import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import Module from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { findStartProblems, findStartWarnings } from '../../src/cli/start-problems.js';
import { generateKey } from '../../src/issue/index.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { connectRedis } from '../../src/redis/connection.js';
import { ListServer } from '../revocation/list-server.js';
import { credentialWith, LIST_ID, toJwt, newIssuer } from '../revocation/lists.js';
import { Passkey } from '../approval/passkey.js';
import { requireApprovePage } from '../support/approve-page.js';
import { eventually } from '../support/eventually.js';
import { command, RedisServer } from '../usage/redis-server.js';
import { needs } from '../support/programs.js';

const ORIGIN = 'https://drs.example';
const folder = mkdtempSync(path.join(tmpdir(), 'drs-check-'));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (...names: string[]) => path.join(folder, ...names);
const problemsWith = (env: Record<string, string>) =>
  findStartProblems(readConfiguration({ FRONT_END: 'node', ...env }));

describe('the check before a start', () => {
  it('finds nothing where all can be used, and creates nothing', async () => {
    writeFileSync(at('revoked'), '{"status_list_index":7}\n{"status_l');
    const before = readdirSync(folder);
    for (const file of ['revoked', 'missing'])
      expect(
        await problemsWith({
          REVOCATION_STORE_PATH: at(file),
          DECISION_LOG: at('decisions'),
          LISTEN: `unix:${at('socket')}`,
          GRPC_PORT: '0',
        }),
      ).toEqual([]);
    expect(readdirSync(folder)).toEqual(before);
  });

  it('names a folder that is missing, for each variable', async () => {
    const file = at('no', 'file');
    const says = `ENOENT: no such file or directory, access '${at('no')}'`;
    expect(
      await problemsWith({ REVOCATION_STORE_PATH: file, DECISION_LOG: file, LISTEN: `unix:${file}` }),
    ).toEqual([`REVOCATION_STORE_PATH: ${says}`, `DECISION_LOG: ${says}`, `LISTEN: ${says}`]);
  });

  it('does not take a folder or a named pipe for a file', async () => {
    mkdirSync(at('folder'));
    execFileSync('mkfifo', [at('pipe')]);
    for (const path of [at('folder'), at('pipe')])
      expect(await problemsWith({ DECISION_LOG: path })).toEqual([
        `DECISION_LOG: ${path} is no regular file, expected one`,
      ]);
  });

  it('says that Redis cannot be reached, without its password', async () => {
    // Whoever connects is sent away.
    const server = createServer((socket) => socket.destroy());
    const port = await new Promise<number>((resolve) =>
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
    );
    const url = `redis://me:pa55@127.0.0.1:${port}`;
    for (const variable of ['GATE_REPLAY', 'REPLAY_PROTECTION', 'REVOCATION_STORE']) {
      const problems = await problemsWith({ [variable]: 'redis', REDIS_URL: url });
      expect(problems).toEqual([
        expect.stringMatching(`^REDIS_URL: cannot connect to Redis at redis://127.0.0.1:${port}: `),
      ]);
      expect(problems.join()).not.toContain('pa55');
    }
    expect(await problemsWith({ REDIS_URL: url })).toEqual([]);
    server.close();
  });

  it('says that Redis wants another password', needs('redis-server'), async () => {
    const redis = await RedisServer.start('--requirepass', 'pa55');
    const { host } = new URL(redis.url);
    try {
      for (const user of ['', ':wrong@']) {
        const url = `redis://${user}${host}`;
        expect(await problemsWith({ GATE_REPLAY: 'redis', REDIS_URL: url })).toEqual([
          expect.stringMatching(
            `^REDIS_URL: cannot connect to Redis at redis://${host}: (?:NOAUTH|WRONGPASS) .* correct its URL`,
          ),
        ]);
      }
      expect(await problemsWith({ GATE_REPLAY: 'redis', REDIS_URL: `redis://:pa55@${host}` })).toEqual([]);
    } finally {
      await redis.stop();
    }
  });

  it(
    'tries the settings of Redis, counts its replicas, and writes nothing',
    needs('redis-server'),
    async () => {
      const redis = await RedisServer.startNew('--appendonly', 'no');
      const replica = await RedisServer.start('--replicaof', '127.0.0.1', new URL(redis.url).port);
      const kept = { REVOCATION_STORE: 'redis', REDIS_URL: redis.url };
      try {
        const replays = { GATE_REPLAY: 'redis', REDIS_URL: redis.url };
        expect(await problemsWith({ ...replays, REDIS_MAY_FORGET: '1' })).toEqual([]);
        expect(await problemsWith(replays)).toEqual([
          expect.stringMatching(/^REDIS_URL: .* set `appendonly yes` .* or REDIS_MAY_FORGET/),
        ]);
        expect(await problemsWith(kept)).toEqual([
          expect.stringMatching(/^REDIS_URL: .* set `appendonly yes`/),
        ]);
        await eventually(async () =>
          expect(await problemsWith({ ...kept, REVOCATION_MIN_REPLICAS: '1' })).toEqual([]),
        );
        expect(await problemsWith({ ...kept, REVOCATION_MIN_REPLICAS: '2' })).toEqual([
          'REVOCATION_MIN_REPLICAS is 2, and the primary has 1 replicas: nothing could be revoked; start more, or lower it',
        ]);
        const connection = await connectRedis(redis.url);
        expect(await connection.find('*')).toBeUndefined();
        await connection.send('', ['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru']);
        connection.destroy();
        expect(await problemsWith(replays)).toEqual([
          expect.stringMatching(/^REDIS_URL: .* expected noeviction/),
        ]);
      } finally {
        await Promise.all([redis.stop(), replica.stop()]);
      }
    },
  );

  it(
    'sends Redis what the service will, as its user, and leaves nothing',
    needs('redis-server'),
    async () => {
      const redis = await RedisServer.startNew();
      const { host } = new URL(redis.url);
      const replays = { GATE_REPLAY: 'redis' };
      const kept = { REVOCATION_STORE: 'redis' };
      const asking = { APPROVALS_URL: ORIGIN };
      const problemsOf = (user: string, env: Record<string, string>) =>
        problemsWith({ ...env, REDIS_URL: `redis://${user}:pa55@${host}` });
      const page = readFileSync(new URL('../../docs/scaling.md', import.meta.url), 'utf8');
      const [said = ''] = /^Its user needs [^;]*/m.exec(page) ?? [];
      const needed = [...said.matchAll(/`([A-Z]+)`/g)].map(([, name]) => `+${name}`);
      const users = {
        all: ['~drs:replay:*', '~drs:approve:*', '~{drs:revocations}:*', ...needed],
        without_eval: ['~drs:replay:*', '+@all', '-eval'],
        without_counters: ['~drs:replay:*', '+@all', '-hincrby'],
        without_records: ['~drs:replay:*', '+@all', '-set'],
        without_sets: ['~drs:replay:*', '~drs:approve:*', '+@all', '-zrangebyscore'],
        without_questions: ['~drs:replay:*', '+@all'],
        with_other_keys: ['~app:*', '+@all'],
        without_streams: ['~{drs:revocations}:*', '+@all', '-xadd'],
      };
      try {
        for (const [name, rights] of Object.entries(users))
          await command(redis, ['ACL', 'SETUSER', name, 'on', '>pa55', ...rights]);
        expect(await problemsOf('all', { ...replays, ...kept, ...asking })).toEqual([]);
        for (const name of ['without_sets', 'without_questions']) {
          expect([name, await problemsOf(name, replays)]).toEqual([name, []]);
          expect([name, await problemsOf(name, { ...asking, GATE_MODE: 'observe', ...replays })]).toEqual([
            name,
            [],
          ]);
          expect([name, await problemsOf(name, { ...replays, ...asking })]).toEqual([
            name,
            [
              expect.stringMatching(
                /^REDIS_URL: Redis at .* refuses what questions need: .*(?:NOPERM|can't run this command|can't access)/,
              ),
            ],
          ]);
        }
        for (const name of ['without_eval', 'without_counters', 'without_records', 'with_other_keys'])
          expect([name, await problemsOf(name, replays)]).toEqual([
            name,
            [
              expect.stringMatching(
                /^REDIS_URL: Redis at .* refuses what used invocations need: .*(?:NOPERM|can't run this command|can't access)/,
              ),
            ],
          ]);
        for (const name of ['with_other_keys', 'without_streams'])
          expect([name, await problemsOf(name, kept)]).toEqual([
            name,
            [expect.stringMatching(/^REDIS_URL: Redis at .* refuses what revocations need: NOPERM/)],
          ]);
        expect(await problemsOf('all', { ...replays, REDIS_WAIT_REPLICAS: '1' })).toEqual([
          expect.stringMatching(/^REDIS_WAIT_REPLICAS is 1, and the primary has 0 replicas: /),
        ]);
        await command(redis, ['CONFIG', 'SET', 'min-replicas-to-write', '1']);
        for (const env of [replays, kept])
          expect(await problemsOf('all', env)).toEqual([expect.stringMatching(/^REDIS_URL: .*NOREPLICAS/)]);
        await eventually(async () => expect(await command(redis, ['DBSIZE'])).toBe(0));
      } finally {
        await redis.stop();
      }
    },
  );

  describe('of approvals', () => {
    beforeAll(requireApprovePage);
    const { approver } = new Passkey('P-256', { origin: ORIGIN });
    const write = (name: string, entry: object) => {
      const { did } = generateKey();
      writeFileSync(at(name), `${JSON.stringify({ did, ...entry })}\n`);
      return { TRUSTED_ROOTS_FILE: at(name), APPROVALS_URL: ORIGIN };
    };
    const warningsWith = (env: Record<string, string>) => findStartWarnings(readConfiguration(env));

    it('reads who may say yes, in the file of trusted roots', async () => {
      expect(await problemsWith(write('approvers.jsonl', { approvers: [approver] }))).toEqual([]);
      const key = { ...approver.key, y: 'AAAA' };
      const env = write('bad-approvers.jsonl', {
        approvers: [{ ...approver, key, origin: 'https://1.2.3.4' }],
      });
      const [problem, ...others] = await problemsWith(env);
      expect(others).toEqual([]);
      expect(problem).toMatch(/^TRUSTED_ROOTS_FILE: /);
      expect(problem).toMatch(/approvers\[0\]\.key: it is .*, expected the public JWK of a passkey/);
      expect(problem).toMatch(/approvers\[0\]\.origin: it is "https:\/\/1\.2\.3\.4", expected an origin/);
      expect(await warningsWith(env)).toEqual([]);
    });

    it('warns where nobody could say yes on the page, which somebody must open to register', async () => {
      expect(await warningsWith(write('here.jsonl', { approvers: [approver] }))).toEqual([]);
      const elsewhere = { ...approver, origin: 'https://drs.example:444' };
      const warning = expect.stringMatching(
        /^APPROVALS_URL is "https:\/\/drs\.example", and no approver in TRUSTED_ROOTS_FILE has this origin/,
      ) as string;
      for (const entry of [{}, { approvers: [elsewhere] }]) {
        const env = write('elsewhere.jsonl', entry);
        expect(await warningsWith(env)).toEqual([warning]);
        expect(await problemsWith(env)).toEqual([]);
      }
      expect(await warningsWith({ APPROVALS_URL: ORIGIN })).toEqual([warning]);
      expect(await warningsWith({})).toEqual([]);
    });

    it('says that the page is missing', async () => {
      const resolver = Module as unknown as {
        _resolveFilename: (request: string, ...more: unknown[]) => string;
      };
      const { _resolveFilename: resolve } = resolver;
      const spy = vi
        .spyOn(resolver, '_resolveFilename')
        .mockImplementation((request, ...more) =>
          resolve.call(Module, request.replace('#approve/', './no-such-folder/'), ...more),
        );
      const problems = await problemsWith({ APPROVALS_URL: ORIGIN });
      spy.mockRestore();
      expect(problems).toEqual([
        'APPROVALS_URL: the files of its page are missing: install the package anew, or run `npm run build:web`',
      ]);
      expect(await problemsWith({ APPROVALS_URL: ORIGIN })).toEqual([]);
    });
  });

  it('reads the file of revocations whole', async () => {
    writeFileSync(at('damaged'), `${'{"status_list_index":7}\n'.repeat(1000)}{"status_list_index":\n`);
    expect(await problemsWith({ REVOCATION_STORE_PATH: at('damaged') })).toEqual([
      expect.stringMatching(/^REVOCATION_STORE_PATH: .*damaged:1001 is no entry: /),
    ]);
  });

  it('says that an address is not of this machine, or that a name is none', async () => {
    // As conda sets it.
    expect(await problemsWith({ HOST: 'x86_64-conda-linux-gnu.invalid' })).toEqual([
      expect.stringMatching(/^HOST: getaddrinfo E\w+ x86_64-conda-linux-gnu/),
    ]);
    expect(await problemsWith({ HOST: '203.0.113.1', METRICS_ADDR: '203.0.113.2:9464' })).toEqual([
      'HOST: listen EADDRNOTAVAIL: address not available 203.0.113.1',
      'METRICS_ADDR: listen EADDRNOTAVAIL: address not available 203.0.113.2',
    ]);
    expect(await problemsWith({ HOST: '::1', METRICS_ADDR: 'localhost:9464' })).toEqual([]);
    expect(await problemsWith({ HOST: '203.0.113.1', LISTEN: `unix:${at('socket')}` })).toEqual([]);
  });

  it('fetches the status list, and checks who signed it', async () => {
    const server = await ListServer.start();
    const [issuer, other] = [newIssuer(), newIssuer()];
    const env = { STATUS_LIST_BASE_URL: server.url, STATUS_LIST_ID: LIST_ID };
    try {
      expect(await problemsWith(env)).toEqual([
        `STATUS_LIST_BASE_URL: ${server.url} answers 500, expected 200 and a list; no redirect is followed`,
      ]);
      server.serve('application/vc+jwt', await toJwt(credentialWith([], { issuer: issuer.did }), issuer));
      for (const by of [{}, { STATUS_LIST_ISSUER: issuer.did }])
        expect(await problemsWith({ ...env, ...by })).toEqual([]);
      expect(await problemsWith({ ...env, STATUS_LIST_ISSUER: other.did })).toEqual([
        expect.stringMatching(`^STATUS_LIST_BASE_URL: .*${other.did}`),
      ]);
      expect(await problemsWith({ STATUS_LIST_BASE_URL: server.url })).toEqual([
        `STATUS_LIST_BASE_URL: its id is "${LIST_ID}", expected "${server.url}", the name of the list: correct STATUS_LIST_ID; "any" is for mirrors`,
      ]);
      server.reset();
      expect(await problemsWith(env)).toEqual([
        expect.stringMatching(`^STATUS_LIST_BASE_URL: ${server.url} cannot be fetched: `),
      ]);
    } finally {
      await server.close();
    }
  });
});
