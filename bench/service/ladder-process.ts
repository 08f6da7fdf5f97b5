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

// A rung of the ladder: the product's front end, and of what the product does with a call the part that RUNG names, which
// includes those before it. `/verify` judges on every rung, so that the receipts are known; without RUNG, all paths do.
const log = pino({ level: 'silent' });
const configuration = readConfiguration(process.env);
// As the service has it.
Buffer.poolSize = 32 * 1024;
const { engine } = await openCore(configuration, log, new Closers());

function bundleOf(body: Buffer) {
  const read = readJson(body, (text) => parseBundleText(text, engine.cache));
  return read.fault === undefined ? (read.parsed.bundle as { readonly invocation?: string }) : null;
}

const invocationOf = (body: Buffer) => readInvocation(bundleOf(body)?.invocation ?? '');

function isSigned(body: Buffer): boolean {
  const invocation = invocationOf(body);
  if (invocation instanceof Failure) return false;
  const publicKey = DEFAULT_KEYS.publicKeyOf(invocation.claims.iss);
  return publicKey !== null && verifyCheck({ ...invocation, publicKey });
}

const RUNGS: Readonly<Record<string, (body: Buffer) => boolean>> = {
  'no-op': () => true,
  body: (body) => body.length > 0,
  parse: (body) => bundleOf(body) !== null,
  invocation: (body) => !(invocationOf(body) instanceof Failure),
  verification: isSigned,
};
const name = process.env['RUNG'] ?? '';
const rung = RUNGS[name];

const judge = async (body: Buffer) =>
  toVerdictJson(await engine.verify({ bundle: bundleOf(body), body: null }), false);
// As long as a verdict.
const context = { chain_depth: 4, others: '6'.repeat(250) };
const [valid, invalid] = [{ valid: true, context }, { valid: false }].map((one) => JSON.stringify(one));

const { open } = await loadFrontEnd(configuration.frontEnd);
const frontEnd = open({
  handle: (wire, { target }) => {
    const isJudged = rung === undefined || target === '/verify';
    let [body, isGone] = [Buffer.alloc(0), false];
    wire.onAborted(() => (isGone = true));
    const write = (text = '') => {
      if (!isGone) wire.write({ status: 200, body: text, headers: undefined, isHead: false, closes: false });
    };
    wire.receive((piece, isLast) => {
      // A copy: the piece is only valid during the call.
      if (isJudged || name !== 'no-op')
        body = body.length === 0 ? Buffer.from(piece) : Buffer.concat([body, piece]);
      if (!isLast) return;
      if (isJudged) void judge(body).then(write);
      else write(rung(body) ? valid : invalid);
    });
  },
  ...{ isRefusing: () => false, connections: new Connections(Infinity, log), certificate: null },
  requestTimeoutSecs: configuration.requestTimeoutSecs,
});
const port = await frontEnd.listen({ host: '127.0.0.1', port: 0, isShared: false });
process.stdout.write(`${JSON.stringify({ port })}\n`);
process.on('SIGTERM', () => process.exit(0));
