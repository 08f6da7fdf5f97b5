import { serveBare } from './bare-server.js';

// Reads the body and answers at once. It shows what uWebSockets.js, the kernel and the load generator cost without any
// verification.
const DEPTH = Number(process.env['DEPTH'] ?? 1);
const policy = { allowed_tools: ['search', 'fetch', 'summarise'], max_cost_usd: 10 };
const ANSWER = JSON.stringify({
  valid: true,
  context: { root_principal: `did:key:z${'6'.repeat(47)}`, chain_depth: DEPTH, leaf_policy: policy },
});

serveBare((res) => {
  res.writeHeader('Content-Type', 'application/json');
  res.end(ANSWER);
});
