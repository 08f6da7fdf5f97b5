import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApprovalEvent } from '../../src/approval/events.js';
import { RedisQuestions } from '../../src/approval/redis-questions.js';
import { challengeOf, type Call } from '../../src/approval/statement.js';
import type { Asked } from '../../src/approval/steps.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { command, markAsUsed, RedisServer } from '../usage/redis-server.js';
import { startRedisCluster } from '../usage/redis-cluster.js';
import { Passkey } from './passkey.js';

/** The questions of several instances, in a real Redis. `questions.test.ts` has what holds for both stores. */

const CALL: Call = {
  ...{ tool_server: 'https://bank', root: 'did:key:root', agent: 'did:key:agent' },
  ...{ command: '/mcp/tools/call', args: { tool: 'transfer' }, leaf: `sha256:${'0'.repeat(64)}` },
};
const call = (amount: number, more: Partial<Call> = {}): Call => ({ ...CALL, args: { amount }, ...more });
const [alice, bob] = [new Passkey(), new Passkey('P-256', { name: 'Bob' })];
const one = { needed: 1, approvers: [alice.approver] };
const two = { needed: 2, approvers: [alice.approver, bob.approver] };
const PREFIX = 'drs:approve:{1}:';
const START = 1_700_000_000;

interface Opened {
  readonly clock?: { now: number };
  readonly openSecs?: number;
  readonly mayForget?: boolean;
}

async function open(
  server: { readonly url: string },
  { clock, openSecs = 86_400, mayForget = false }: Opened = {},
) {
  const events: ApprovalEvent[] = [];
  const questions = await RedisQuestions.open(
    {
      ...{ url: server.url, timeoutMs: 2000, mayForget, openSecs, log: undefined },
      onEvent: (event) => void events.push(event),
    },
    clock && (() => clock.now),
    { lookMs: 50 },
  );
  const yes = async (handle: string, passkey = alice, who = one) => {
    const statement = (await questions.get(handle))?.statement ?? Buffer.alloc(0);
    return questions.approve(handle, passkey.approver.id, passkey.assert(challengeOf(statement)), who);
  };
  return { questions, events, yes, kinds: () => events.map(({ kind }) => kind) };
}
const handleOf = (asked: Asked) => ('handle' in asked ? asked.handle : '');
const problem = (asked: Asked) => (asked.kind === 'refused' ? asked.problem : asked.kind);

describe('questions in Redis', needs('redis-server'), () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
    await markAsUsed(server, PREFIX);
  });
  afterAll(() => server.stop());

  describe('two instances', () => {
    it('have the same questions: the yes given at one serves the call at the other, once', async () => {
      const [first, second] = [await open(server), await open(server)];
      const handle = handleOf(await first.questions.ask(call(1), one, () => [{ iss: 'did:key:root' }]));
      expect(handleOf(await second.questions.ask(call(1), one))).toBe(handle);
      expect(Buffer.from((await second.questions.get(handle))?.receipts ?? []).toString()).toBe(
        '[{"iss":"did:key:root"}]',
      );
      expect(await second.yes(handle)).toEqual({ value: 0 });
      const taken = await first.questions.ask(call(1), one);
      expect(taken).toMatchObject({ kind: 'yes', yeses: [{ approver: alice.approver }] });
      expect((await second.questions.ask(call(1), one)).kind).toBe('asked');
      if (taken.kind === 'yes') await taken.decided(true);
      expect(await second.questions.get(handle)).toBeNull();
      expect(handleOf(await second.questions.ask(call(1), one))).not.toBe(handle);
      expect([first.kinds(), second.kinds()]).toEqual([
        ['asked', 'used'],
        ['approved', 'asked'],
      ]);
      first.questions.close();
      second.questions.close();
    });

    it('give a yes to one of many racing calls, and ask once', async () => {
      const instances = await Promise.all([1, 2, 3, 4].map(() => open(server)));
      const race = () =>
        Promise.all(instances.flatMap(({ questions }) => [1, 2, 3].map(() => questions.ask(call(2), one))));
      const handles = new Set((await race()).map(handleOf));
      expect(handles.size).toBe(1);
      const [handle = ''] = handles;
      await instances[0]?.yes(handle);
      const kinds = (await race()).map(({ kind }) => kind);
      expect(kinds.filter((kind) => kind === 'yes')).toHaveLength(1);
      expect(instances.flatMap(({ kinds }) => kinds()).sort()).toEqual(['approved', 'asked']);
      for (const { questions } of instances) questions.close();
    });

    it('give it back when its call is refused, and take a no', async () => {
      const [first, second] = [await open(server), await open(server)];
      const handle = handleOf(await first.questions.ask(call(3), one));
      await second.yes(handle);
      const refused = await first.questions.ask(call(3), one);
      if (refused.kind === 'yes') await refused.decided(false);
      const again = await second.questions.ask(call(3), one);
      expect([refused.kind, again.kind]).toEqual(['yes', 'yes']);
      expect(await first.questions.deny(handle)).toBe(true);
      if (again.kind === 'yes') await again.decided(true);
      expect(await first.questions.ask(call(3), one)).toMatchObject({ kind: 'denied', handle });
      expect(await first.yes(handle)).toEqual({ problem: 'somebody said no' });
      first.questions.close();
      second.questions.close();
    });

    it('count four eyes together', async () => {
      const [first, second] = [await open(server), await open(server)];
      const handle = handleOf(await first.questions.ask(call(4), two));
      const said = await Promise.all([first.yes(handle, alice, two), second.yes(handle, bob, two)]);
      expect(said.map((one) => ('value' in one ? one.value : one.problem)).sort()).toEqual([0, 1]);
      expect((await first.questions.ask(call(4), two)).kind).toBe('yes');
      first.questions.close();
      second.questions.close();
    });
  });

  describe('what is over', () => {
    it('is told of once, and gone', async () => {
      const clock = { now: START };
      const [first, second] = [await open(server, { clock }), await open(server, { clock })];
      const more = { agent: 'did:key:over' };
      const handle = handleOf(await first.questions.ask(call(1, more), one));
      await first.questions.deny(handleOf(await first.questions.ask(call(2, more), one)));
      clock.now += 86_399;
      expect(handleOf(await second.questions.ask(call(1, more), one))).toBe(handle);
      clock.now += 1;
      expect(await second.questions.get(handle)).toBeNull();
      expect(handleOf(await first.questions.ask(call(1, more), one))).not.toBe(handle);
      expect([...first.kinds(), ...second.kinds()].sort()).toEqual([
        'asked',
        'asked',
        'asked',
        'denied',
        'expired',
      ]);
      first.questions.close();
      second.questions.close();
    });

    it('leaves nothing in Redis but what is open', async () => {
      const own = await RedisServer.start();
      await markAsUsed(own, PREFIX);
      const clock = { now: START };
      const { questions, yes } = await open(own, { clock, openSecs: 60 });
      for (let at = 0; at < 200; at++)
        await questions.ask(call(at, { agent: `a${at}`, root: `r${at}` }), one);
      await yes(handleOf(await questions.ask(call(0, { agent: 'a0', root: 'r0' }), one)));
      clock.now += 600;
      await questions.get('');
      expect(await command(own, ['ZCARD', `${PREFIX}all`])).toBe(0);
      expect(await command(own, ['GET', `${PREFIX}bytes`])).toBe('0');
      const names = (await command(own, ['KEYS', `${PREFIX}*`])) as string[];
      // Names of handles and of agents and roots go by themselves.
      expect(names.filter((name) => !/:[har]:/.test(name)).sort()).toEqual([
        `${PREFIX}bytes`,
        `${PREFIX}mark`,
      ]);
      await questions.ask(call(1, { agent: 'a0', root: 'r0' }), one);
      for (const name of ['a:a0', 'r:r0']) expect(await command(own, ['ZCARD', PREFIX + name])).toBe(1);
      questions.close();
      await own.stop();
    });
  });

  describe('bounds', () => {
    it('are 10 questions of an agent and 50 of a root, at all instances together', async () => {
      const clock = { now: START };
      const instances = [await open(server, { clock }), await open(server, { clock })];
      const askAt = (at: number, more: Partial<Call>) =>
        (instances[at % 2] as (typeof instances)[0]).questions.ask(
          call(at, { root: 'did:key:r2', ...more }),
          one,
        );
      for (let at = 0; at < 10; at++) expect(problem(await askAt(at, { agent: 'b' }))).toBe('asked');
      expect(problem(await askAt(10, { agent: 'b' }))).toBe('10 questions of this agent wait for an answer');
      expect(problem(await askAt(3, { agent: 'b' }))).toBe('asked');
      for (let at = 10; at < 50; at++) expect(problem(await askAt(at, { agent: `b${at}` }))).toBe('asked');
      const full = '50 questions of this principal wait for an answer';
      expect(problem(await askAt(50, { agent: 'c' }))).toBe(full);
      clock.now += 86_400;
      expect(problem(await askAt(50, { agent: 'c' }))).toBe('asked');
      for (const { questions } of instances) questions.close();
    });

    it('are 10,000 questions and 64 MiB', async () => {
      const own = await RedisServer.start();
      await markAsUsed(own, PREFIX);
      const { questions } = await open(own);
      const text = 'a'.repeat(64_000);
      let asked = 0;
      const next = () =>
        questions.ask({ ...call(0), agent: `a${asked}`, root: `r${asked}`, args: { text } }, one);
      while ((await next()).kind === 'asked') asked++;
      expect(problem(await next())).toBe('there is no room for another question here');
      expect([asked > 1000, asked < 1050]).toEqual([true, true]);
      questions.close();
      await own.stop();
    });
  });

  describe('a loss', () => {
    it('takes what was asked before it with it: a used yes that comes back counts no more', async () => {
      const own = await RedisServer.start();
      await markAsUsed(own, PREFIX);
      const { questions, yes } = await open(own);
      const handle = handleOf(await questions.ask(CALL, one));
      await yes(handle);
      const name = ((await command(own, ['KEYS', `${PREFIX}*`])) as string[]).find((key) =>
        /\}:[\w-]{43}$/.test(key),
      ) as string;
      const record = String(await command(own, ['GET', name]));
      const taken = await questions.ask(CALL, one);
      if (taken.kind === 'yes') await taken.decided(true);
      expect(await command(own, ['EXISTS', name])).toBe(0);
      // It comes back from an old copy, in which it is not used yet.
      await command(own, ['SET', name, record]);
      await command(own, ['SET', `${PREFIX}h:${handle}`, name.slice(PREFIX.length)]);
      expect((await questions.ask(CALL, one)).kind).toBe('yes');
      await command(own, ['SET', name, record]);
      await command(own, ['DEL', `${PREFIX}mark`]);
      await eventually(async () => expect((await questions.get(handle)) === null).toBe(true));
      expect((await questions.ask(CALL, one)).kind).toBe('asked');
      expect(await yes(handle)).toEqual({ problem: 'there is no such question, or it is over' });
      questions.close();
      await own.stop();
    });

    it('of everything asks anew', async () => {
      const own = await RedisServer.start();
      const { questions, yes } = await open(own);
      await yes(handleOf(await questions.ask(CALL, one)));
      await command(own, ['FLUSHALL']);
      expect((await questions.ask(CALL, one)).kind).toBe('asked');
      questions.close();
      await own.stop();
    });
  });

  it('a Redis that is away asks nobody, and is used again when it is back', async () => {
    const own = await RedisServer.start();
    const { questions } = await open(own);
    await questions.ask(CALL, one);
    await own.kill();
    await eventually(() => expect(questions.ask(CALL, one)).rejects.toThrow('Redis does not answer'));
    await own.restart();
    await eventually(async () => expect((await questions.ask(CALL, one)).kind).toBe('asked'));
    questions.close();
    await own.stop();
  });

  it('a Redis that keeps nothing on its disk is refused, unless it may forget', async () => {
    const own = await RedisServer.start('--appendonly', 'no');
    await expect(open(own)).rejects.toThrow('keeps answers of persons in memory only');
    const { questions } = await open(own, { mayForget: true });
    questions.close();
    await own.stop();
  });

  it('a cluster keeps all of it in one slot', async () => {
    const cluster = await startRedisCluster(2);
    const { questions, yes } = await open({ url: cluster.nodes.map(({ url }) => url).join() });
    const handle = handleOf(await questions.ask(CALL, one));
    await yes(handle);
    expect((await questions.ask(CALL, one)).kind).toBe('yes');
    questions.close();
    await cluster.stop();
  });
});
