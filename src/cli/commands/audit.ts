import type { Command } from 'commander';
import { callOf } from '../../approval/statement.js';
import type { Explained } from '../../gate/codes.js';
import { judgedOf } from '../../gate/decide.js';
import { readChain, requireValid } from '../../issue/chain.js';
import { IssueError } from '../../issue/issue-error.js';
import { clock } from '../../issue/options.js';
import { digestOf, parseCompactJwt } from '../../protocol/jwt.js';
import { equalsByJcs, isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { isCount } from '../../protocol/policy.js';
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
import { readRootNames, type NameOf } from '../agreement.js';
import { bold, dim, green, red } from '../terminal.js';
import { aligned, printable, showJson, showFailure, showTime } from '../terminal.js';

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

/** What a sealed line of a log says. */
interface Said {
  readonly origin: string;
  readonly seq: number;
  /** Of the checkpoint. */
  readonly size: number;
  /** Unix seconds. */
  readonly at: number;
  /** Why it was refused; `null` if it was not. */
  readonly code: string | null;
  /** Whether a verifier says the same for that time; `null` where only the gate could know. */
  readonly agrees: boolean | null;
  /** Whether the roots that were given were in force; `null` if that is not known. */
  readonly hasTheseRoots: boolean | null;
}

/** What a bundle says; a token that cannot be read is `malformed`. */
interface Report {
  readonly verdict: { readonly valid: boolean; readonly error?: Explained };
  readonly bundle_version?: JsonValue;
  readonly receipts: readonly Token[];
  /** Absent if only a chain was given. */
  readonly invocation?: Token;
  /** What the operator says of its tool, in words. */
  readonly tool?: readonly string[];
  /** Whether a line of a log proves a person's yes to the call; absent if none was given. */
  readonly approval?:
    | { readonly valid: true; readonly by: string; readonly requested_at: number; readonly needed: number }
    | { readonly valid: false; readonly problem: string };
  readonly log?: Said;
}

interface Token {
  /** Of the JWT text; `null` if there is none. */
  readonly digest: string | null;
  readonly malformed?: string;
  readonly claims?: JsonObject;
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

/** The report as text for people. Values from the bundle are escaped, so that they cannot control the terminal. */
function showReport(
  { verdict, receipts, invocation, tool = [], bundle_version: version, approval, log }: Report,
  nameOf: NameOf,
): string {
  const count = `${receipts.length} receipt${receipts.length === 1 ? '' : 's'}`;
  const bundle = version === undefined ? '' : `bundle ${showValue(version)}, `;
  const judged = verdict.error
    ? `${bold(red('invalid'))}  ${showFailure(verdict.error)}`
    : `${bold(green('valid'))} ${log === undefined ? 'now' : 'then'}, as far as can be told here\n`;
  const unknown = 'trust, revocation and earlier use are for `npx drs-verify verify`';
  const parts = receipts.map((receipt, at) =>
    showToken(`receipt ${at}${at === 0 ? ' (root)' : ''}`, receipt, nameOf, receipts[at - 1]),
  );
  if (invocation) parts.push(showToken('invocation', invocation, nameOf));
  if (tool.length > 0)
    parts.push(`\n${bold('by the operator')}\n${aligned(tool.map((says) => ['the tool', printable(says)]))}`);
  const head = `${bundle}${count}${invocation ? ' and an invocation' : ', no invocation'}\n`;
  const said = approval === undefined ? '' : showApproval(approval);
  return `${head}${log === undefined ? '' : showSaid(log)}${judged}  ${dim(unknown)}\n${said}${parts.join('')}`;
}

function showSaid({ origin, seq, size, at, code, agrees, hasTheseRoots }: Said): string {
  const said = code === null ? 'allowed' : `refused, ${printable(code)}`;
  const judged = {
    true: green('what is below says the same'),
    false: red('what is below says something else'),
    null: 'why is for the gate to know',
  }[`${agrees}`];
  const roots = {
    true: 'these roots were in force',
    false: red('other roots were in force'),
    null: 'the roots are not compared',
  };
  return `${bold(green('sealed'))}  line ${seq} of ${printable(origin)}, by its checkpoint of ${size} lines\n  ${said} at ${showTime(at)}: ${judged}; ${roots[`${hasTheseRoots}`]}\n`;
}

function showApproval(approval: Exclude<Report['approval'], undefined>): string {
  if (!approval.valid)
    return `${bold(red('not approved'))}  by what was given\n  ${printable(approval.problem)}\n`;
  const { by, requested_at: at, needed } = approval;
  const more = needed === 1 ? '' : `; ${needed} persons are needed`;
  return `${bold(green('approved'))}  by the passkey of ${printable(by)}: exactly this call, asked about at ${showTime(at)}${more}\n`;
}

type Row = readonly [label: string, value: string];

/** The order in which claims are shown: these, those that nobody knows, and the rest. */
const FIRST = ['iss', 'aud', 'sub', 'cmd', 'tool_server'];
const LAST = ['prev_dr_hash', 'dr_chain', 'drs_consent', 'policy', 'args'];
/** Shown in other rows, or the same in every token. */
const APART = ['jti', 'nbf', 'exp', 'iat', 'drs_type', 'drs_v'];

function showToken(
  title: string,
  { claims = {}, malformed, digest }: Token,
  nameOf: NameOf,
  above?: Token,
): string {
  const { jti = '', nbf, exp = null, iat, policy } = claims;
  const known = [...FIRST, ...LAST, ...APART];
  const first = [...FIRST, ...Object.keys(claims).filter((name) => !known.includes(name))];
  const rowsOf = (name: string) =>
    name === 'policy' ? showPolicy(policy, above?.claims?.['policy']) : showClaim(name, claims[name], nameOf);
  const rows: readonly Row[] = [
    ...(malformed === undefined ? [] : [['malformed', red(printable(malformed))] as const]),
    ...first.flatMap(rowsOf),
    ...(nbf === undefined
      ? []
      : [['window', `${showMoment(nbf)} to ${exp === null ? 'no end' : showMoment(exp)}`] as const]),
    ...(iat === undefined ? [] : [['iat', showMoment(iat)] as const]),
    ['hash', showValue(digest)],
    ...LAST.flatMap(rowsOf),
  ];
  return `\n${`${bold(title)}  ${showValue(jti)}`.trimEnd()}\n${aligned(rows)}`;
}

/** One row for each member of an object or item of a list of hashes, else one for the value; none for what is not there. */
function showClaim(name: string, value: JsonValue | undefined, nameOf: NameOf = () => null): Row[] {
  if (value === undefined || (value === null && name === 'prev_dr_hash')) return [];
  if (name === 'dr_chain' && Array.isArray(value)) return value.map((hash) => [name, showValue(hash)]);
  if (isJsonObject(value) && Object.keys(value).length > 0)
    return Object.entries(value).map(([member, item]) => [
      `${clip(printable(name))}.${clip(printable(member))}`,
      showValue(item, true),
    ]);
  const party = typeof value === 'string' ? nameOf(value) : null;
  return [
    [clip(printable(name)), party === null ? showValue(value) : `${showValue(value)} (${printable(party)})`],
  ];
}

/** The members of a policy, with what the receipt above has in their place. */
function showPolicy(policy: JsonValue | undefined, above: JsonValue | undefined): Row[] {
  if (!isJsonObject(policy) || !isJsonObject(above)) return showClaim('policy', policy);
  const [own, before] = [new Map(Object.entries(policy)), new Map(Object.entries(above))];
  const members = [...new Set([...own.keys(), ...before.keys()])];
  if (members.length === 0) return showClaim('policy', policy);
  return members.map((member) => {
    const [to, from] = [own.get(member), before.get(member)];
    const isSame = from !== undefined && to !== undefined && equalsByJcs(from, to);
    const was = from === undefined ? 'new' : isSame ? 'unchanged' : `was ${showValue(from, true)}`;
    const value = to === undefined ? '(none)' : showValue(to, true);
    return [`policy.${clip(printable(member))}`, `${value}  ${dim(was)}`];
  });
}

function showMoment(value: JsonValue): string {
  return isCount(value) ? showTime(value) : showValue(value);
}

const MAX_VALUE_LENGTH = 300;

/** A value on one line, shortened. `quoted` writes strings as JSON, so that `"1"` and `1` differ. Of a digest, 12 digits. */
function showValue(value: JsonValue, quoted = false): string {
  const isText = typeof value === 'string';
  if (isText && /^sha256:[0-9a-f]{64}$/.test(value)) return `${value.slice(0, 19)}…`;
  return clip(isText && !quoted ? printable(value) : showJson(value));
}

function clip(text: string): string {
  return text.length > MAX_VALUE_LENGTH
    ? `${text.slice(0, MAX_VALUE_LENGTH)}… (${text.length} characters)`
    : text;
}
