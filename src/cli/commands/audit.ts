import type { Command } from 'commander';
import { callOf } from '../../approval/statement.js';
import { judgedOf } from '../../gate/decide.js';
import { readChain, requireValid } from '../../issue/chain.js';
import { IssueError } from '../../issue/issue-error.js';
import { clock } from '../../issue/options.js';
import { digestOf, parseCompactJwt } from '../../protocol/jwt.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { createVerifier } from '../../verifier/create-verifier.js';
import { digestAt, readLinesAt } from '../../trust/followed-lines.js';
import { ROOTS } from '../../trust/line-files.js';
import { CATALOGUE, show } from '../../verify/codes.js';
import type { Proof } from '../../verify/judge.js';
import { describeTool } from '../../issue/plain-words.js';
import { toolOf, type Tools } from '../../verify/tools.js';
import { bundleTextOf, readText, readToolsFile, receiptsOf } from '../files.js';
import { checkYesLine, readYesLine } from '../approval-line.js';
import { CommandError, EXIT, refuseWrong } from '../command-error.js';
import { readProof } from '../sealed-logs.js';
import { readRootNames } from '../agreement.js';
import { showReport, type Report, type Token } from '../audit-report.js';
import { showJson } from '../terminal.js';

export const help = `
Exit code: 0 shown, whatever the verdict; 1 with --approval if it proves no yes to this call, with --key if the log is
not sealed by it, or says something else; 2 usage, an unreadable
file, or neither a bundle nor a chain.

Examples:
  npx drs-verify audit bundle.json
  npx drs-verify audit root.jwt
  npx drs-verify audit --json - < header.txt
  npx drs-verify audit bundle.json --approval yes.json --roots roots.jsonl
  npx drs-verify audit proof.json --key gate.pub --roots roots.jsonl`;

export function define(command: Command): void {
  command
    .description(
      'Shows the claims of every receipt and of the invocation, and what a verifier without a memory says of them now: one that trusts anybody, and knows of no revocation and no earlier call.\nWorks offline; `npx drs-verify verify` asks the service, which knows more. With TRUSTED_ROOTS_FILE, principals have their names.',
    )
    .argument(
      '<bundle_file>',
      'a bundle as JSON or as an X-DRS-Bundle header, or a chain; - for standard input',
    )
    .option('--tools <file>', 'what an operator says of tools (TOOLS_FILE): calls are judged by it, too')
    .option(
      '--approval <file>',
      "a line of a decision log with a person's yes: whether it proves one to exactly this call; - for standard input",
    )
    .option(
      '--roots <file>',
      'what an operator says of roots (TRUSTED_ROOTS_FILE): with --approval whose passkeys count, with --key who is trusted',
    )
    .option(
      '--key <did|file>',
      'the file is a proof by `log prove`: whether this key has sealed its line, and what a verifier said at its time',
    )
    .option('--json', 'print the report as JSON, with digests in full')
    .action(async (file: string, options: AuditOptions) => {
      const { approval, roots, key } = options;
      refuseWrong([
        [
          (approval ?? key) === undefined && roots !== undefined,
          '--roots is given without --approval and --key',
          'leave it out: whom a verifier trusts is for `npx drs-verify verify`',
        ],
        [
          approval !== undefined && roots === undefined,
          'there is only one of --approval and --roots',
          'give both: the roots file says whose yes counts',
        ],
        [
          file === '-' && approval === '-',
          'bundle and approval cannot both be standard input',
          'write one of them to a file',
        ],
      ]);
      const report =
        key === undefined
          ? await reportOnBundle(file, options)
          : await reportOnProof(file, { ...options, key });
      process.stdout.write(
        options.json ? `${showJson(report, 2)}\n` : showReport(report, await readRootNames()),
      );
      if (report.approval?.valid === false || report.log?.agrees === false) process.exitCode = EXIT.no;
    });
}

interface AuditOptions {
  readonly tools?: string;
  readonly approval?: string;
  readonly roots?: string;
  readonly key?: string;
  readonly json?: true;
}

const PROVABLE = ['A', 'B', 'C', 'D', 'E'];

/** The block of a code; empty of none, and of one that is no verdict's. */
const blockOf = (code: string | undefined): string => CATALOGUE.find((row) => row.code === code)?.block ?? '';

/** Judges as verifiers do, with their functions: blocks A to E. */
async function verdictOn(
  bundle: JsonObject,
  toolsFile: string | undefined,
  { now, roots }: { readonly now?: number; readonly roots?: string | undefined } = {},
): Promise<Report['verdict']> {
  const { receipts, invocation } = bundle;
  const isChain = Array.isArray(receipts) && receipts.every((receipt) => typeof receipt === 'string');
  if (invocation !== undefined || !isChain) {
    const verifier = createVerifier({
      workerThreads: 0,
      ...(toolsFile !== undefined && { toolsFile }),
      ...(roots !== undefined && { trustedRootsFile: roots }),
    });
    const verdict = await verifier.verify(bundle, now === undefined ? {} : { now });
    await verifier.close();
    return verdict.valid ? { valid: true } : { valid: false, error: verdict.error };
  }
  try {
    await requireValid(readChain(receipts), null, clock(), null);
    return { valid: true };
  } catch (error) {
    if (!(error instanceof IssueError)) throw error;
    const { code, message, suggestion } = error;
    return { valid: false, error: { code, message, suggestion } };
  }
}

async function reportOnBundle(
  file: string,
  { approval, roots, tools: toolsFile }: AuditOptions,
): Promise<Report> {
  const content = await readText(file, 'a bundle');
  // A chain has no call to say yes to.
  const receipts = approval === undefined ? receiptsOf(content) : null;
  const bundle = receipts === null ? (JSON.parse(bundleTextOf(content, file)) as JsonObject) : { receipts };
  const tools = await readToolsFile(toolsFile);
  const verdict = await verdictOn(bundle, toolsFile);
  const yes = approval === undefined ? null : await yesTo(bundle, verdict, approval, roots as string);
  // It was the last of its checks. Where two persons are needed, one line is not enough.
  const isEnough = yes?.valid === true && yes.needed === 1;
  const isWaiting = verdict.error?.code === 'APPROVAL_REQUIRED' && isEnough;
  return {
    ...reportOn(bundle, isWaiting ? { valid: true } : verdict, tools),
    ...(yes && { approval: yes }),
  };
}

/**
 * What a sealed line says, and what a verifier says of its bundle at its time.
 *
 * @throws CommandError if the key has not sealed the line, or this has no bundle
 */
async function reportOnProof(
  file: string,
  { key, roots, tools: toolsFile }: AuditOptions & { readonly key: string },
): Promise<Report> {
  const read = await readProof(await readText(file, 'a proof'), key);
  if (read === null) throw new CommandError(`${file} is no proof`, '`npx drs-verify log prove` makes one');
  const { line, checkpoint } = read;
  if (checkpoint === null)
    throw new CommandError(
      `${file} proves nothing: this key has not sealed its line`,
      'check the key',
      EXIT.no,
    );
  const { time, code: said, state, bundle } = line;
  if (!isJsonObject(bundle))
    throw new CommandError(
      `line ${checkpoint.index} of ${checkpoint.origin} is sealed, and has no bundle to audit`,
      'bundles are in the log with DECISION_LOG_BUNDLES=1',
    );
  const at = Math.floor(Date.parse(time as string) / 1000);
  const code = typeof said === 'string' ? said : null;
  const verdict = await verdictOn(bundle, toolsFile, { now: at, roots });
  const found = verdict.error?.code === 'APPROVAL_REQUIRED' ? null : (verdict.error?.code ?? null);
  // What comes after block E is the gate's to know: revocation, a yes, earlier use, the body.
  const isOfGate = code !== null && !PROVABLE.includes(blockOf(code));
  const agrees = found === null && isOfGate ? null : found === code;
  const digest = isJsonObject(state) ? (state['roots'] ?? null) : null;
  const hasTheseRoots = roots === undefined || digest === null ? null : (await digestAt(roots)) === digest;
  const { origin, index: seq, size } = checkpoint;
  return {
    ...reportOn(bundle, verdict, await readToolsFile(toolsFile)),
    log: { origin, seq, size, at, code, agrees, hasTheseRoots },
  };
}

async function yesTo(
  bundle: JsonObject,
  { error }: Report['verdict'],
  file: string,
  place: string,
): Promise<Exclude<Report['approval'], undefined>> {
  const line = readYesLine(await readText(file, 'a line of a decision log'));
  if (line === null)
    throw new CommandError(
      '--approval names no line of a yes',
      'give the one line of the decision log whose event is "approved"; `npx drs-verify log --json --with <digest>` finds it',
    );
  const roots = await readLinesAt(ROOTS, place).catch((cause: unknown) => {
    const found = (cause as Error).message.split('\n').join('; ');
    throw new CommandError(`cannot read the roots: ${found}`, 'correct the file of --roots');
  });
  if (['A', 'B', 'C'].includes(blockOf(error?.code)))
    return { valid: false, problem: `the bundle is no signed call: ${error?.code}` };
  // Of a call that a verifier refuses now, as it has expired, the claims are still those that were signed.
  const call = callOf(judgedOf({ bundle }, { valid: true }) as Proof);
  const entry = roots.get(call.root)?.approval ?? null;
  const checked = checkYesLine(line, call, entry);
  if ('problem' in checked) return { valid: false, problem: checked.problem };
  return { valid: true, by: checked.value, requested_at: line.requestedAt, needed: entry?.needed ?? 1 };
}

function reportOn(
  { bundle_version: version, receipts, invocation }: JsonObject,
  verdict: Report['verdict'],
  tools: Tools | null,
): Report {
  const token = invocation === undefined ? null : readToken(invocation);
  const args = token?.claims?.['args'];
  const tool = isJsonObject(args) ? toolOf(tools, args) : null;
  const entries = Array.isArray(receipts) ? receipts : receipts === undefined ? [] : [receipts];
  return {
    verdict,
    // Shortened unless it is a scalar: a value that nests too deep could not be written.
    ...(version !== undefined && {
      bundle_version: typeof version === 'object' && version !== null ? show(version) : version,
    }),
    receipts: entries.map(readToken),
    ...(token && { invocation: token }),
    ...(tool && { tool: describeTool(tool) }),
  };
}

function readToken(entry: JsonValue): Token {
  if (typeof entry !== 'string')
    return { digest: null, malformed: `it is ${show(entry)}, expected a compact JWT` };
  // No limit: an audit also shows what a verifier refuses for its size.
  const parts = parseCompactJwt(entry, Infinity);
  const digest = digestOf(entry);
  return parts.defect === undefined ? { digest, claims: parts.payload } : { digest, malformed: parts.defect };
}
