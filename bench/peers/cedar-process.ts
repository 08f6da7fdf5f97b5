import { preparsePolicySet, statefulIsAuthorized, type PolicySet } from '@cedar-policy/cedar-wasm/nodejs';
import { readJob, timeRepeated, type InProcessReport, type VerdictCost } from './in-process-report.js';

// Cedar: only the policy part, parsed in advance and kept. Each receipt becomes one `forbid` with its limits, so a call
// must satisfy every level, as in block D. There are no signatures, no chain and no time. Costs are in cents, since
// Cedar has no fractions.
function makePolicies(depth: number): PolicySet {
  const limits = Array.from(
    { length: depth },
    (_, at) =>
      `forbid (principal, action, resource) unless { ["search", "fetch"].contains(context.tool) && context.cost <= ${2000 - 100 * at} };`,
  );
  return { staticPolicies: ['permit (principal, action, resource);', ...limits].join('\n') };
}

const bot = { type: 'Agent', id: 'bot' };
const call = { type: 'Action', id: 'tools/call' };
const server = { type: 'ToolServer', id: 'tools.example' };

function allows(policies: string, tool: string, cost: number): boolean {
  const answer = statefulIsAuthorized({
    ...{ principal: bot, action: call, resource: server, entities: [] },
    ...{ context: { tool, cost }, preparsedPolicySetId: policies },
  });
  if (answer.type === 'failure') throw new Error(`Cedar failed: ${JSON.stringify(answer.errors)}`);
  if (answer.response.diagnostics.errors.length > 0)
    throw new Error(`Cedar failed: ${JSON.stringify(answer.response.diagnostics.errors)}`);
  return answer.response.decision === 'allow';
}

const job = readJob();
const report: (VerdictCost & { depth: number })[] = [];
for (const depth of job.depths) {
  const policies = `depth ${depth}`;
  const parsed = preparsePolicySet(policies, makePolicies(depth));
  if (parsed.type === 'failure') throw new Error(`Cedar read no policies: ${JSON.stringify(parsed.errors)}`);
  const leastCost = 2000 - 100 * (depth - 1);
  if (!allows(policies, 'search', leastCost))
    throw new Error(`Cedar refused a call that ${depth} levels allow`);
  if (allows(policies, 'delete', 1)) throw new Error('Cedar allowed a tool that no level names');
  if (allows(policies, 'search', leastCost + 1))
    throw new Error('Cedar allowed more than the last level does');
  report.push({ depth, ...(await timeRepeated(() => allows(policies, 'search', 5), job.milliseconds)) });
}
process.stdout.write(JSON.stringify(report satisfies InProcessReport));
