import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import { pino } from 'pino';
import { DrsClient } from '../../client/index.js';
import {
  createBundle,
  createConsent,
  generateKey,
  issueInvocation,
  IssueError,
  issueRootDelegation,
  issueSubDelegation,
  type Bundle,
  type IssuedPolicy,
  type JsonObject,
  type SigningKey,
} from '../../issue/index.js';
import { readConfiguration } from '../../service/configuration/configuration.js';
import { startService } from '../../service/service.js';
import { EXIT } from '../command-error.js';
import { coloursFor, printableJson } from '../terminal.js';

const TOOL_SERVER = 'https://tools.example';
const STATUS_INDEX = 7;

/** Adds the options of `drs-verify demo`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Starts a service on a free port and plays a story against it: three parties, three delegations, one call, and several attacks. Reads no configuration and writes no file. Exits with 1 if a verdict is not as expected.',
    )
    .addHelpText('after', '\nExamples:\n  npx drs-verify demo')
    .action(play);
}

async function play(): Promise<void> {
  const token = randomBytes(16).toString('base64url');
  // The caller's environment is not read: a trusted root in it would change the outcomes.
  const env = { HOST: '127.0.0.1', PORT: '0', DRS_ADMIN_TOKEN: token };
  const service = await startService(readConfiguration(env), pino({}, { write: () => undefined }));
  const url = `http://127.0.0.1:${service.port}`;
  const client = new DrsClient(url);
  const revoke = async (index: number) => {
    const body = JSON.stringify({ status_list_index: index });
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` };
    return (await fetch(`${url}/admin/revoke`, { method: 'POST', headers, body })).ok;
  };
  const { dim, red } = coloursFor(process.stdout);
  try {
    say(dim(`This demo has started a service of its own at ${url}`));
    const surprises = await tell(client, revoke);
    if (surprises === 0) say('\nAll verdicts were as expected.');
    else say(red(`\n${surprises} verdicts were not as expected.`));
    process.exitCode = surprises === 0 ? EXIT.ok : EXIT.no;
  } finally {
    await client.close();
    await service.close(true);
  }
}

const say = (text: string) => process.stdout.write(`${text}\n`);

/** @returns the number of outcomes that are not the expected ones */
async function tell(client: DrsClient, revoke: (index: number) => Promise<boolean>): Promise<number> {
  const { bold, dim, green, red } = coloursFor(process.stdout);
  const step = (title: string) => say(`\n${bold(title)}`);
  let surprises = 0;
  const show = (outcome: string, explanation: string, expected: string) => {
    say(`  ${(outcome.startsWith('valid') ? green : red)(outcome)}  ${dim(explanation)}`);
    if (outcome === expected) return;
    surprises++;
    say(`  ${red(`this demo expected: ${expected}`)}`);
  };
  const verify = async (bundle: Bundle, expected: string, body?: JsonObject) => {
    const verdict = await client.verify(bundle, { body });
    if (verdict.valid) {
      const { chain_depth: depth, root_principal: principal } = verdict.context;
      const outcome = `valid, binding ${verdict.binding ?? 'none'}`;
      show(outcome, `${depth} receipts under ${principal.slice(0, 17)}…`, expected);
    } else show(`invalid ${verdict.error.code}`, verdict.error.message, expected);
  };

  step('1. Three parties generate keys. A DID names each key.');
  const [alice, agent, helper] = [generateKey(), generateKey(), generateKey()];
  say(`  Alice, a person         ${alice.did}`);
  say(`  Agent, Alice's agent    ${agent.did}`);
  say(`  Helper, Agent's helper  ${helper.did}`);

  step('2. Alice gives her consent, and signs the root receipt for her agent.');
  const text = 'Agent may search and fetch for me, at most $5 a call.';
  const rootPolicy: IssuedPolicy = { allowed_tools: ['search', 'fetch'], max_cost_usd: 5 };
  const root = await issueRootDelegation({
    key: alice,
    audience: agent.did,
    command: '/mcp/tools/call',
    policy: rootPolicy,
    statusListIndex: STATUS_INDEX,
    consent: createConsent({ text, locale: 'en', method: 'explicit-ui-click' }),
  });
  say(`  Alice saw  "${text}"`);
  say(`  receipt    ${printableJson(rootPolicy)}, status list index ${STATUS_INDEX}`);

  step(
    '3. Agent delegates to Helper, and Helper to a sub-task. Each policy is narrower than the one before.',
  );
  const task = generateKey();
  const helperPolicy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 2 };
  const taskPolicy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 0.5, write_access: false };
  const toHelper = { key: agent, chain: [root], audience: helper.did, policy: helperPolicy };
  const chain = [root, await issueSubDelegation(toHelper)];
  const toTask = { key: helper, chain, audience: task.did };
  const receipts = [...chain, await issueSubDelegation({ ...toTask, policy: taskPolicy })];
  say(`  receipt for Helper        ${printableJson(helperPolicy)}`);
  say(`  receipt for the sub-task  ${printableJson(taskPolicy)}`);

  step(
    '4. The sub-task calls a tool. The tool server asks the service for a verdict before it runs the tool.',
  );
  const args = { tool: 'search', query: 'tea in Zurich', estimated_cost_usd: 0.02 };
  const call = async (key: SigningKey, under: readonly string[], unchecked = false) => {
    const signed = { key, chain: under, args, toolServer: TOOL_SERVER, unchecked };
    return createBundle({ receipts: under, invocation: await issueInvocation(signed) });
  };
  const bundle = await call(task, receipts);
  say(`  arguments  ${printableJson(args)}`);
  await verify(bundle, 'valid, binding match', args);

  step(
    '5. Somebody changes the request body on its way. The chain is still valid, but the body is not the signed one.',
  );
  const tampered = { ...args, query: 'gold in Zurich' };
  say(`  body  ${printableJson(tampered)}`);
  await verify(bundle, 'valid, binding mismatch', tampered);

  step('6. Agent changes the receipt that Alice signed: $5 becomes $50.');
  say('  All other receipts stay as they are:');
  const forged = withCost(root, 50);
  await verify({ ...bundle, receipts: [forged, ...receipts.slice(1)] }, 'invalid CHAIN_BREAK');
  say('  Agent signs a call under the changed receipt itself:');
  await verify(await call(agent, [forged], true), 'invalid INVALID_SIGNATURE');

  step('7. Helper tries to delegate more than it may do itself.');
  const greedy: IssuedPolicy = { allowed_tools: ['search', 'delete'], max_cost_usd: 2 };
  say(`  policy  ${printableJson(greedy)}`);
  say('  The library refuses to sign that:');
  const refused = await issueSubDelegation({ ...toTask, policy: greedy }).catch((error: unknown) => error);
  const said = refused instanceof IssueError ? `refused ${refused.code}` : String(refused);
  show(said, 'nothing was signed', 'refused POLICY_ESCALATION');
  say('  Helper signs it without the check of the library. The service refuses the call:');
  const escalated = await issueSubDelegation({ ...toTask, policy: greedy, unchecked: true });
  await verify(await call(task, [...chain, escalated], true), 'invalid POLICY_ESCALATION');

  step(`8. Alice changes her mind. She revokes her receipt: status list index ${STATUS_INDEX}.`);
  say(`  POST /admin/revoke  ${(await revoke(STATUS_INDEX)) ? 'acknowledged' : red('not acknowledged')}`);
  await verify(bundle, 'invalid RECEIPT_REVOKED', args);
  return surprises;
}

/** A receipt with another cost limit and the old signature. */
function withCost(jwt: string, cost: number): string {
  const [header = '', payload = '', signature = ''] = jwt.split('.');
  const json = Buffer.from(payload, 'base64url').toString('utf8');
  const changed = json.replace(/"max_cost_usd":[\d.]+/, `"max_cost_usd":${cost}`);
  return [header, Buffer.from(changed, 'utf8').toString('base64url'), signature].join('.');
}
