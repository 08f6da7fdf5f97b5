import type { Command } from 'commander';
import { readChain, requireValid } from '../../issue/chain.js';
import { IssueError } from '../../issue/issue-error.js';
import { clock } from '../../issue/options.js';
import { digestOf, parseCompactJwt } from '../../protocol/jwt.js';
import { equalsByJcs, isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { isCount } from '../../protocol/policy.js';
import { createVerifier } from '../../verifier/create-verifier.js';
import { show } from '../../verify/codes.js';
import { bundleTextOf, isChainText, receiptsOf } from '../bundle-file.js';
import { readText } from '../files.js';
import { readRootNames, type NameOf } from '../agreement.js';
import { aligned, coloursFor, printable, printableJson, showFailure, showTime } from '../terminal.js';

/** Adds the options of `drs-verify audit`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Shows the claims of every receipt and of the invocation, and what a verifier without a memory says of them now: one that trusts anybody, and knows of no revocation and no earlier call.\nWorks offline; `npx drs-verify verify` asks the service, which knows more. With TRUSTED_ROOTS_FILE, principals have their names.',
    )
    .argument(
      '<bundle_file>',
      'a bundle as JSON or as an X-DRS-Bundle header, or a chain; - for standard input',
    )
    .option('--json', 'print the report as JSON, with digests in full')
    .addHelpText(
      'after',
      `
Exit code: 0 shown, whatever the verdict; 2 usage, or neither a bundle nor a chain.

Examples:
  npx drs-verify audit bundle.json
  npx drs-verify audit root.jwt
  npx drs-verify audit --json - < header.txt`,
    )
    .action(async (file: string, options: { readonly json?: true }) => {
      const content = await readText(file, 'a bundle');
      const bundle = isChainText(content)
        ? { receipts: receiptsOf(content) }
        : (JSON.parse(bundleTextOf(content, file)) as JsonObject);
      const report = reportOn(bundle, await verdictOn(bundle));
      process.stdout.write(
        options.json ? `${printableJson(report, 2)}\n` : showReport(report, await readRootNames()),
      );
    });
}

interface Verdict {
  readonly valid: boolean;
  readonly error?: { readonly code: string; readonly message: string; readonly suggestion: string };
}

/** What a bundle says; a token that cannot be read is `malformed`. */
interface Report {
  readonly verdict: Verdict;
  readonly bundle_version?: JsonValue;
  readonly receipts: readonly Token[];
  /** Absent if only a chain was given. */
  readonly invocation?: Token;
}

interface Token {
  /** Of the JWT text; `null` if there is none. */
  readonly digest: string | null;
  readonly malformed?: string;
  readonly claims?: JsonObject;
}

/** Judges as verifiers do, with their functions: blocks A to E. */
async function verdictOn(bundle: JsonObject): Promise<Verdict> {
  const { receipts, invocation } = bundle;
  if (invocation !== undefined || !isChain(receipts)) {
    const verifier = createVerifier({ workerThreads: 0 });
    try {
      const verdict = await verifier.verify(bundle);
      return verdict.valid ? { valid: true } : { valid: false, error: verdict.error };
    } finally {
      await verifier.close();
    }
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

function isChain(receipts: JsonValue | undefined): receipts is string[] {
  return Array.isArray(receipts) && receipts.every((receipt) => typeof receipt === 'string');
}

function reportOn({ bundle_version: version, receipts, invocation }: JsonObject, verdict: Verdict): Report {
  const entries = Array.isArray(receipts) ? receipts : receipts === undefined ? [] : [receipts];
  return {
    verdict,
    // Shortened unless it is a scalar: a value that nests too deep could not be written.
    ...(version !== undefined && {
      bundle_version: typeof version === 'object' && version !== null ? show(version) : version,
    }),
    receipts: entries.map(readToken),
    ...(invocation !== undefined && { invocation: readToken(invocation) }),
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

type Row = readonly [label: string, value: string];
// Rows are spread into arrays, never into function calls: a call can take only about 100,000 arguments.
type Rows = readonly Row[];

const MAX_VALUE_LENGTH = 300;

/** The report as text for people. Values from the bundle are escaped, so that they cannot control the terminal. */
function showReport(
  { verdict, receipts, invocation, bundle_version: version }: Report,
  nameOf: NameOf,
): string {
  const { bold, green, red, dim } = coloursFor(process.stdout);
  const count = `${receipts.length} receipt${receipts.length === 1 ? '' : 's'}`;
  const bundle = version === undefined ? '' : `bundle ${showValue(version)}, `;
  const judged = verdict.error
    ? `${bold(red('invalid'))}  ${showFailure(verdict.error)}`
    : `${bold(green('valid'))} now, as far as can be told here\n`;
  const unknown = 'trust, revocation and earlier use are for `npx drs-verify verify`';
  return [
    `${bundle}${count}${invocation ? ' and an invocation' : ', no invocation'}\n`,
    `${judged}  ${dim(unknown)}\n`,
    ...receipts.map(
      (receipt, at) =>
        `\n${showToken(`receipt ${at}${at === 0 ? ' (root)' : ''}`, receipt, nameOf, receipts[at - 1])}`,
    ),
    ...(invocation ? [`\n${showToken('invocation', invocation, nameOf)}`] : []),
  ].join('');
}

/** Claims that are shown otherwise. */
const APART = ['jti', 'nbf', 'exp', 'iat', 'policy', 'args', 'drs_consent', 'prev_dr_hash', 'dr_chain'];
const SAME_EVERYWHERE = ['drs_type', 'drs_v'];
const FIRST = ['iss', 'aud', 'sub', 'cmd', 'tool_server'];

function showToken(
  title: string,
  { claims, malformed, digest }: Token,
  nameOf: NameOf,
  above?: Token,
): string {
  const { bold, red } = coloursFor(process.stdout);
  const heading = `${bold(title)}  ${showValue(claims?.['jti'] ?? '')}`.trimEnd();
  if (claims === undefined)
    return `${heading}\n${aligned([
      ['malformed', red(printable(malformed ?? ''))],
      ['hash', shorten(digest)],
    ])}`;
  const {
    nbf,
    exp,
    iat,
    policy,
    args,
    drs_consent: consent,
    prev_dr_hash: previous,
    dr_chain: chain,
  } = claims;
  const first = FIRST.filter((name) => claims[name] !== undefined);
  const others = Object.keys(claims).filter(
    (name) => ![...APART, ...SAME_EVERYWHERE, ...FIRST].includes(name),
  );
  const end = (exp ?? null) === null ? 'no end' : showMoment(exp);
  const rows: Rows = [
    ...[...first, ...others].map((name): Row => [clip(printable(name)), showParty(claims[name], nameOf)]),
    ...(nbf === undefined ? [] : [['window', `${showMoment(nbf)} to ${end}`] as const]),
    ...(iat === undefined ? [] : [['iat', showMoment(iat)] as const]),
    ['hash', shorten(digest)],
    ...((previous ?? null) === null ? [] : [['prev_dr_hash', shorten(previous)] as const]),
    ...(Array.isArray(chain)
      ? chain.map((hash): Row => ['dr_chain', shorten(hash)])
      : showMembers('dr_chain', chain)),
    ...showMembers('drs_consent', consent),
    ...showPolicy(policy, above?.claims?.['policy']),
    ...showMembers('args', args),
  ];
  return `${heading}\n${aligned(rows)}`;
}

/** The members of a policy, with what the receipt above has in their place. */
function showPolicy(policy: JsonValue | undefined, above: JsonValue | undefined): Rows {
  const { dim } = coloursFor(process.stdout);
  if (!isJsonObject(policy) || !isJsonObject(above) || Object.keys({ ...policy, ...above }).length === 0)
    return showMembers('policy', policy);
  const own = (of: JsonObject, member: string) => (Object.hasOwn(of, member) ? of[member] : undefined);
  return [...new Set([...Object.keys(policy), ...Object.keys(above)])].map((member) => {
    const [to, from] = [own(policy, member), own(above, member)];
    const isSame = from !== undefined && to !== undefined && equalsByJcs(from, to);
    const was = from === undefined ? 'new' : isSame ? 'unchanged' : `was ${showValue(from, true)}`;
    const value = to === undefined ? '(none)' : showValue(to, true);
    return [`policy.${clip(printable(member))}`, `${value}  ${dim(was)}`];
  });
}

/** One row for each member of an object. If the value is not an object, one row for the value. */
function showMembers(name: string, value: JsonValue | undefined): Rows {
  if (value === undefined) return [];
  if (!isJsonObject(value) || Object.keys(value).length === 0) return [[name, showValue(value, true)]];
  return Object.entries(value).map(([member, item]) => [
    `${name}.${clip(printable(member))}`,
    member === 'policy_hash' ? shorten(item) : showValue(item, true),
  ]);
}

function showParty(value: JsonValue | undefined, nameOf: NameOf): string {
  const name = typeof value === 'string' ? nameOf(value) : null;
  return name === null ? showValue(value) : `${showValue(value)} (${printable(name)})`;
}

function showMoment(value: JsonValue | undefined): string {
  return isCount(value) ? showTime(value) : showValue(value);
}

/** A value on one line, shortened. `quoted` writes strings as JSON, so that `"1"` and `1` differ. */
function showValue(value: JsonValue | undefined, quoted = false): string {
  return clip(typeof value === 'string' && !quoted ? printable(value) : printableJson(value ?? null));
}

/** The first 12 hex digits of a digest. Other values are returned unchanged. */
function shorten(digest: JsonValue | undefined): string {
  const [, start] =
    /^(sha256:[0-9a-f]{12})[0-9a-f]{52}$/.exec(typeof digest === 'string' ? digest : '') ?? [];
  return start === undefined ? showValue(digest) : `${start}…`;
}

function clip(text: string): string {
  return text.length > MAX_VALUE_LENGTH
    ? `${text.slice(0, MAX_VALUE_LENGTH)}… (${text.length} characters)`
    : text;
}
