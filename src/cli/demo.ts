import { randomBytes } from 'node:crypto';
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
} from '../issue/index.js';
import { startService, type DemoService } from './demo-service.js';
import { coloursFor, printableJson } from './terminal.js';

const colours = coloursFor(process.stdout);
const { bold, dim, green, red } = colours;
const TOOL_SERVER = 'https://tools.example';
const STATUS_INDEX = 7;

let surprises = 0;

const say = (text = '') => process.stdout.write(`${text}\n`);
const step = (title: string) => say(`\n${bold(title)}`);
const short = (did: string) => `${did.slice(0, 17)}…`;
const showPolicy = (policy: IssuedPolicy) => printableJson(policy);

/** Prints an outcome, and counts it as a surprise if it is not the expected one. */
function show(outcome: string, explanation: string, expected: string): void {
  const isExpected = outcome === expected;
  if (!isExpected) surprises++;
  say(`  ${(outcome.startsWith('valid') ? green : red)(outcome)}  ${dim(explanation)}`);
  if (!isExpected) say(`  ${red(`this demo expected: ${expected}`)}`);
}

async function verify(service: DemoService, request: Bundle & { body?: JsonObject }, expected: string) {
  const { valid, context, error, binding } = await service.post('/verify', request);
  if (valid) {
    const outcome = binding === undefined ? 'valid' : `valid, binding ${binding}`;
    show(
      outcome,
      `${context?.chain_depth ?? '?'} receipts under ${short(context?.root_principal ?? '?')}`,
      expected,
    );
  } else {
    show(`invalid ${error?.code ?? '?'}`, error?.message ?? '', expected);
  }
}

async function tell(service: DemoService): Promise<void> {
  step('1. Three parties make keys; a key is known by its DID');
  const [alice, agent, helper] = [generateKey(), generateKey(), generateKey()];
  say(`  Alice, the person   ${alice.did}`);
  say(`  Agent, her agent    ${agent.did}`);
  say(`  Helper, its helper  ${helper.did}`);

  step('2. Alice consents, and signs the root receipt for her agent');
  const text = 'Agent may search and fetch for me, at most $5 a call.';
  const rootPolicy: IssuedPolicy = { allowed_tools: ['search', 'fetch'], max_cost_usd: 5 };
  const root = issueRootDelegation({
    key: alice,
    audience: agent.did,
    command: '/mcp/tools/call',
    policy: rootPolicy,
    statusListIndex: STATUS_INDEX,
    consent: createConsent({ text, locale: 'en', method: 'explicit-ui-click' }),
  });
  say(`  she saw  "${text}"`);
  say(`  receipt  ${showPolicy(rootPolicy)}, status list index ${STATUS_INDEX}`);

  step('3. Two more levels, each narrower: the agent to its helper, the helper to a sub-task of its own');
  const task = generateKey();
  const helperPolicy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 2 };
  const taskPolicy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 0.5, write_access: false };
  const second = issueSubDelegation({
    key: agent,
    chain: [root],
    audience: helper.did,
    policy: helperPolicy,
  });
  const chain = [root, second];
  const third = issueSubDelegation({ key: helper, chain, audience: task.did, policy: taskPolicy });
  const receipts = [...chain, third];
  say(`  receipt  ${showPolicy(helperPolicy)}`);
  say(`  receipt  ${showPolicy(taskPolicy)}`);

  step('4. The sub-task calls a tool; the tool server asks for a verdict before it runs it');
  const args = { tool: 'search', query: 'tea in Zurich', estimated_cost_usd: 0.02 };
  const invocation = issueInvocation({ key: task, chain: receipts, args, toolServer: TOOL_SERVER });
  const bundle = createBundle({ receipts, invocation });
  say(`  args  ${printableJson(args)}`);
  await verify(service, { ...bundle, body: args }, 'valid, binding match');

  step('5. Someone changes the request body on its way: the chain is sound, the body is not what was signed');
  const tampered = { ...args, query: 'gold in Zurich' };
  say(`  body  ${printableJson(tampered)}`);
  await verify(service, { ...bundle, body: tampered }, 'valid, binding mismatch');

  step('6. The agent edits the receipt that Alice signed: one digit more');
  const edited = createBundle({ receipts: [withCost(root, 50), second, third], invocation });
  await verify(service, edited, 'invalid CHAIN_BREAK');
  say('  and the edited receipt on its own, with all that follows signed anew:');
  await verify(service, forgeUnder(withCost(root, 50)), 'invalid INVALID_SIGNATURE');

  step('7. The helper wants to hand on more than it has');
  const greedy: IssuedPolicy = { allowed_tools: ['search', 'delete'], max_cost_usd: 2 };
  const wide = { key: helper, chain, audience: task.did, policy: greedy };
  say(`  policy  ${showPolicy(greedy)}`);
  say('  issuing it is refused:');
  show(
    refusalOf(() => issueSubDelegation(wide)),
    'nothing was signed',
    'refused POLICY_ESCALATION',
  );
  say('  so it signs the receipt without asking, and the verifier refuses:');
  const escalated = [...chain, issueSubDelegation({ ...wide, unchecked: true })];
  await verify(service, bundleOf(escalated), 'invalid POLICY_ESCALATION');

  step(`8. Alice changes her mind: status list index ${STATUS_INDEX} is revoked`);
  const { revoked } = await service.post('/admin/revoke', { status_list_index: STATUS_INDEX });
  say(`  POST /admin/revoke  ${revoked === true ? 'recorded' : red('not recorded')}`);
  await verify(service, { ...bundle, body: args }, 'invalid RECEIPT_REVOKED');

  function bundleOf(someReceipts: string[]): Bundle {
    const call = { key: task, chain: someReceipts, args, toolServer: TOOL_SERVER, unchecked: true };
    return createBundle({ receipts: someReceipts, invocation: issueInvocation(call) });
  }

  function forgeUnder(forgedRoot: string): Bundle {
    const level = { audience: helper.did, policy: helperPolicy, unchecked: true };
    const forgedSecond = issueSubDelegation({ ...level, key: agent, chain: [forgedRoot] });
    const below = { key: helper, audience: task.did, policy: taskPolicy, unchecked: true };
    const forgedChain = [forgedRoot, forgedSecond];
    return bundleOf([...forgedChain, issueSubDelegation({ ...below, chain: forgedChain })]);
  }
}

/** A receipt with another cost limit and the old signature. */
function withCost(jwt: string, cost: number): string {
  const [header = '', payload = '', signature = ''] = jwt.split('.');
  const json = Buffer.from(payload, 'base64url').toString('utf8');
  const changed = json.replace(/"max_cost_usd":[\d.]+/, `"max_cost_usd":${cost}`);
  return [header, Buffer.from(changed, 'utf8').toString('base64url'), signature].join('.');
}

function refusalOf(issue: () => unknown): string {
  try {
    issue();
    return 'issued';
  } catch (error) {
    if (error instanceof IssueError) return `refused ${error.code}`;
    throw error;
  }
}

const service = await startService(randomBytes(16).toString('base64url'));
try {
  say(dim(`a service of this demo's own runs at ${service.url}`));
  await tell(service);
} finally {
  await service.stop();
}
const isAsExpected = surprises === 0;
say(
  isAsExpected
    ? `\nEvery verdict was the expected one.`
    : red(`\n${surprises} outcomes were not the expected ones.`),
);
process.exitCode = isAsExpected ? 0 : 1;
