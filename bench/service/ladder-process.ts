import { pino } from 'pino';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { Closers } from '../../src/service/closers.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { openCore } from '../../src/service/core.js';
import { readJson } from '../../src/service/http/body-handler.js';
import { loadFrontEnd } from '../../src/service/http/load-front-end.js';
import { Connections } from '../../src/service/load/connections.js';
import { verifyCheck } from '../../src/signatures/in-thread.js';
import { toVerdictJson } from '../../src/verifier/verdict.js';
import { Failure } from '../../src/verify/codes.js';
import { readInvocation } from '../../src/verify/judge.js';
import { parseBundleText } from '../../src/verify/receipt-cache.js';

// A rung of the ladder: the product's front end, and of what the product does with a call a part that RUNG names. Each rung does
// what those below it do. `/verify` judges on every rung, so that the receipts are known.
const log = pino({ level: 'silent' });
const configuration = readConfiguration(process.env);
// As the service has it.
Buffer.poolSize = 32 * 1024;
const { engine } = await openCore(configuration, log, new Closers());

const policy = { allowed_tools: ['search', 'fetch', 'summarise'], max_cost_usd: 10 };
const root = `did:key:z${'6'.repeat(47)}`;
// As long as a verdict.
const context = { root_principal: root, chain_depth: 4, leaf_policy: policy, tool_server: root };
const answerOf = (valid: boolean) => (valid ? VALID : INVALID);
const VALID = JSON.stringify({ valid: true, context });
const INVALID = JSON.stringify({ valid: false });

function parse(body: Buffer): { readonly invocation?: unknown } {
  const read = readJson(body, (text) => parseBundleText(text, engine.cache));
  return read.fault === undefined ? (read.parsed.bundle as object) : {};
}

function invocationOf(body: Buffer) {
  const invocation = readInvocation(String(parse(body).invocation));
  return invocation instanceof Failure ? null : invocation;
}

function isSigned(body: Buffer): boolean {
  const invocation = invocationOf(body);
  const publicKey = DEFAULT_KEYS.publicKeyOf(invocation?.claims.iss ?? '');
  return invocation !== null && publicKey !== null && verifyCheck({ ...invocation, publicKey });
}

type Rung = (body: Buffer) => string | Promise<string>;
const judge: Rung = async (body) =>
  toVerdictJson(await engine.verify({ bundle: parse(body), body: null }), false);
const RUNGS: Readonly<Record<string, Rung>> = {
  'no-op': () => VALID,
  body: (body) => answerOf(body.length > 0),
  parse: (body) => answerOf(typeof parse(body).invocation === 'string'),
  invocation: (body) => answerOf(invocationOf(body) !== null),
  verification: (body) => answerOf(isSigned(body)),
  judge,
};
const name = process.env['RUNG'] ?? '';
const rung = RUNGS[name];
if (rung === undefined)
  throw new Error(`RUNG is "${name}", expected one of ${Object.keys(RUNGS).join(', ')}`);

const { open } = await loadFrontEnd(configuration.frontEnd);
const frontEnd = open({
  handle: (wire, { target }) => {
    const isJudged = target === '/verify';
    const isRead = isJudged || name !== 'no-op';
    let [body, isGone] = [Buffer.alloc(0), false];
    wire.onAborted(() => (isGone = true));
    const write = (text: string) => {
      if (isGone) return;
      wire.write({ status: 200, body: text, headers: undefined, isHead: false, closes: false });
    };
    wire.receive((piece, isLast) => {
      // A copy: the piece is only valid during the call.
      if (isRead) body = body.length === 0 ? Buffer.from(piece) : Buffer.concat([body, piece]);
      if (!isLast) return;
      const answer = isJudged ? judge(body) : rung(body);
      if (typeof answer === 'string') write(answer);
      else void answer.then(write);
    });
  },
  ...{ isRefusing: () => false, connections: new Connections(Infinity, log) },
  ...{ requestTimeoutSecs: configuration.requestTimeoutSecs, certificate: null },
});
const port = await frontEnd.listen({ host: '127.0.0.1', port: 0, isShared: false });
process.stdout.write(`${JSON.stringify({ port })}\n`);
process.on('SIGTERM', () => process.exit(0));
