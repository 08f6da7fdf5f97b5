import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
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
  say(`  receipt    ${showPolicy(rootPolicy)}, status list index ${STATUS_INDEX}`);

  step(
    '3. Agent delegates to Helper, and Helper to a sub-task. Each policy is narrower than the one before.',
  );
  const task = generateKey();
  const helperPolicy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 2 };
  const taskPolicy: IssuedPolicy = { allowed_tools: ['search'], max_cost_usd: 0.5, write_access: false };
  const second = await issueSubDelegation({
    key: agent,
    chain: [root],
    audience: helper.did,
    policy: helperPolicy,
  });
  const chain = [root, second];
  const third = await issueSubDelegation({ key: helper, chain, audience: task.did, policy: taskPolicy });
  const receipts = [...chain, third];
  say(`  receipt for Helper        ${showPolicy(helperPolicy)}`);
  say(`  receipt for the sub-task  ${showPolicy(taskPolicy)}`);

  step(
    '4. The sub-task calls a tool. The tool server asks the service for a verdict before it runs the tool.',
  );
  const args = { tool: 'search', query: 'tea in Zurich', estimated_cost_usd: 0.02 };
  const invocation = await issueInvocation({ key: task, chain: receipts, args, toolServer: TOOL_SERVER });
  const bundle = createBundle({ receipts, invocation });
  say(`  arguments  ${printableJson(args)}`);
  await verify(service, { ...bundle, body: args }, 'valid, binding match');

  step(
    '5. Somebody changes the request body on its way. The chain is still valid, but the body is not the signed one.',
  );
  const tampered = { ...args, query: 'gold in Zurich' };
  say(`  body  ${printableJson(tampered)}`);
  await verify(service, { ...bundle, body: tampered }, 'valid, binding mismatch');

  step('6. Agent changes the receipt that Alice signed: $5 becomes $50.');
  say('  All other receipts stay as they are:');
  const edited = createBundle({ receipts: [withCost(root, 50), second, third], invocation });
  await verify(service, edited, 'invalid CHAIN_BREAK');
  say('  All that comes after the changed receipt is signed again:');
  await verify(service, await forgeUnder(withCost(root, 50)), 'invalid INVALID_SIGNATURE');

  step('7. Helper tries to delegate more than it may do itself.');
  const greedy: IssuedPolicy = { allowed_tools: ['search', 'delete'], max_cost_usd: 2 };
  const wide = { key: helper, chain, audience: task.did, policy: greedy };
  say(`  policy  ${showPolicy(greedy)}`);
  say('  The library refuses to sign that:');
  show(await refusalOf(() => issueSubDelegation(wide)), 'nothing was signed', 'refused POLICY_ESCALATION');
  say('  Helper signs it without the check of the library. The service refuses the call:');
  const escalated = [...chain, await issueSubDelegation({ ...wide, unchecked: true })];
  await verify(service, await bundleOf(escalated), 'invalid POLICY_ESCALATION');

  step(`8. Alice changes her mind. She revokes her receipt: status list index ${STATUS_INDEX}.`);
  const { revoked } = await service.post('/admin/revoke', { status_list_index: STATUS_INDEX });
  say(`  POST /admin/revoke  ${revoked === true ? 'acknowledged' : red('not acknowledged')}`);
  await verify(service, { ...bundle, body: args }, 'invalid RECEIPT_REVOKED');

  async function bundleOf(someReceipts: string[]): Promise<Bundle> {
    const call = { key: task, chain: someReceipts, args, toolServer: TOOL_SERVER, unchecked: true };
    return createBundle({ receipts: someReceipts, invocation: await issueInvocation(call) });
  }

  async function forgeUnder(forgedRoot: string): Promise<Bundle> {
    const level = { audience: helper.did, policy: helperPolicy, unchecked: true };
    const forgedSecond = await issueSubDelegation({ ...level, key: agent, chain: [forgedRoot] });
    const below = { key: helper, audience: task.did, policy: taskPolicy, unchecked: true };
    const forgedChain = [forgedRoot, forgedSecond];
    return bundleOf([...forgedChain, await issueSubDelegation({ ...below, chain: forgedChain })]);
  }
}

/** A receipt with another cost limit and the old signature. */
function withCost(jwt: string, cost: number): string {
  const [header = '', payload = '', signature = ''] = jwt.split('.');
  const json = Buffer.from(payload, 'base64url').toString('utf8');
  const changed = json.replace(/"max_cost_usd":[\d.]+/, `"max_cost_usd":${cost}`);
  return [header, Buffer.from(changed, 'utf8').toString('base64url'), signature].join('.');
}

async function refusalOf(issue: () => Promise<unknown>): Promise<string> {
  try {
    await issue();
    return 'issued';
  } catch (error) {
    if (error instanceof IssueError) return `refused ${error.code}`;
    throw error;
  }
}

/**
 * Starts a service, and tells the whole story against it.
 *
 * @returns whether all verdicts were as expected
 */
export async function playDemo(): Promise<boolean> {
  const service = await startService(randomBytes(16).toString('base64url'));
  try {
    say(dim(`This demo has started a service of its own at ${service.url}`));
    await tell(service);
  } finally {
    await service.stop();
  }
  const isAsExpected = surprises === 0;
  say(
    isAsExpected ? '\nAll verdicts were as expected.' : red(`\n${surprises} verdicts were not as expected.`),
  );
  return isAsExpected;
}

/** The parts of the service's answers that the demo reads. */
interface DemoAnswer {
  readonly valid?: boolean;
  readonly context?: { readonly root_principal: string; readonly chain_depth: number };
  readonly error?: { readonly code: string; readonly message: string };
  readonly binding?: string;
  readonly revoked?: boolean;
}

/** A service that runs during the demo. */
interface DemoService {
  readonly url: string;
  post(path: '/verify' | '/admin/revoke', body: object): Promise<DemoAnswer>;
  stop(): Promise<void>;
}

/** Starts a service on a free port. Its only configuration is an admin token. */
async function startService(adminToken: string): Promise<DemoService> {
  const main = fileURLToPath(new URL('main.js', import.meta.url));
  // The caller's environment is not inherited: a trusted root in it would change the outcomes.
  const { PATH, SystemRoot } = process.env;
  const env = { PATH, SystemRoot, HOST: '127.0.0.1', PORT: '0', DRS_ADMIN_TOKEN: adminToken };
  const child = spawn(process.execPath, [main, 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  let url: string | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    url = listeningUrlOf(line);
    if (url !== undefined) break;
  }
  if (url === undefined) {
    await exited;
    throw new Error('the service did not start; what it printed stands above');
  }
  // Read the output: a full pipe would block the service at its next log line.
  child.stdout.resume();
  const post = async (path: string, body: object) => {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${adminToken}` };
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    // The cast is safe: the demo compares each answer with the expected one.
    return (await response.json()) as DemoAnswer;
  };
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
  };
  return { url, post, stop };
}

function listeningUrlOf(line: string): string | undefined {
  try {
    const { msg, url } = JSON.parse(line) as { msg?: unknown; url?: unknown };
    return msg === 'listening' && typeof url === 'string' ? url : undefined;
  } catch {
    return undefined;
  }
}
