import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { isCount } from '../protocol/policy.js';
import type { AuditReport, InvocationReport, PolicyChange, ReceiptReport } from './audit-report.js';
import { aligned, coloursFor, printable, printableJson } from './terminal.js';
import { showTime } from './times.js';

type Row = [label: string, value: string];
// Rows are spread into arrays, never into function calls: a call can take only about 100,000 arguments.
type Rows = readonly Row[];

const MAX_VALUE_LENGTH = 300;

/** The report as text for people. Values from the bundle are escaped, so that they cannot control the terminal. */
export function showAudit(report: AuditReport): string {
  const { bold, yellow } = coloursFor(process.stdout);
  const { receipts, invocation, bundle_version } = report;
  const version = bundle_version === undefined ? '' : `bundle ${showValue(bundle_version)}, `;
  const count = `${receipts.length} receipt${receipts.length === 1 ? '' : 's'}`;
  return [
    `${version}${count}${invocation ? ' and an invocation' : ', no invocation'}`,
    yellow(
      'signatures NOT verified: this is what the file claims; `npx drs-verify verify` gives the verdict',
    ),
    ...receipts.map((receipt, at) => `\n${showReceipt(receipt, at, receipts)}`.trimEnd()),
    ...(invocation
      ? [`\n${bold('invocation')}${showInvocation(invocation, receipts.length)}`.trimEnd()]
      : []),
    '',
  ].join('\n');
}

function showReceipt(receipt: ReceiptReport, at: number, receipts: readonly ReceiptReport[]): string {
  const { bold, red } = coloursFor(process.stdout);
  const { claims, malformed, digest, linked, delegated_too_often } = receipt;
  const title = `${bold(`receipt ${at}${at === 0 ? ' (root)' : ''}`)}  ${showValue(claims?.['jti'] ?? '')}\n`;
  const rows: Rows = malformed === undefined ? [] : [['malformed', red(printable(malformed))]];
  if (claims === undefined) return title + aligned([...rows, ['hash', shorten(digest)]]);
  const previous = claims['prev_dr_hash'] ?? null;
  const place = at === 0 ? 'a root' : `receipt ${at - 1}`;
  const link = `${shorten(previous)}  ${linked ? `is ${place}` : red(`is NOT ${place}`)}`;
  return (
    title +
    aligned([
      ...rows,
      ...showClaims(claims, ['iss', 'aud', 'sub', 'cmd']),
      ['window', showWindow(claims, receipts[at - 1])],
      ...showTimes(claims),
      ['hash', shorten(digest)],
      ...(at > 0 || !linked ? ([['prev_dr_hash', link]] as const) : []),
      ...showClaims(claims, ['drs_root_type', 'drs_status_list_index']),
      ...(delegated_too_often
        ? ([['delegated', red('MORE OFTEN than a receipt above allows')]] as Rows)
        : []),
      ...showConsent(claims['drs_consent']),
      ...showPolicy(receipt),
    ])
  );
}

function showInvocation({ claims, malformed, chain_matches }: InvocationReport, depth: number): string {
  const { red } = coloursFor(process.stdout);
  const rows: Rows = malformed === undefined ? [] : [['malformed', red(printable(malformed))]];
  if (claims === undefined) return `\n${aligned(rows)}`;
  const hashes = Array.isArray(claims['dr_chain']) ? claims['dr_chain'].length : 0;
  const chain = `${hashes} hash${hashes === 1 ? '' : 'es'}`;
  const those = depth === 1 ? 'that of the receipt above' : 'those of the receipts above';
  const all: Rows = [
    ...rows,
    ...showClaims(claims, ['iss', 'sub', 'cmd', 'tool_server']),
    ...showTimes(claims),
    ['dr_chain', chain_matches ? `${chain}, ${those}` : `${chain}, ${red(`NOT ${those}`)}`],
    ...showMembers('args', claims['args']),
  ];
  return `  ${showValue(claims['jti'] ?? '')}\n${aligned(all)}`;
}

function showClaims(claims: JsonObject, names: readonly string[]): Rows {
  return names.filter((name) => claims[name] !== undefined).map((name) => [name, showValue(claims[name])]);
}

function showTimes({ iat }: JsonObject): Rows {
  return iat === undefined ? [] : [['iat', showMoment(iat)]];
}

function showWindow({ nbf, exp }: JsonObject, parent: ReceiptReport | undefined): string {
  const { red } = coloursFor(process.stdout);
  const until = (exp ?? null) === null ? 'no end' : showMoment(exp);
  const window = `${showMoment(nbf)} to ${until}`;
  const above = parent?.claims;
  if (above === undefined) return window;
  const startsEarlier = isCount(nbf) && isCount(above['nbf']) && nbf < above['nbf'];
  const endsLater = isCount(above['exp']) && ((exp ?? null) === null || (isCount(exp) && exp > above['exp']));
  return startsEarlier || endsLater ? `${window}  ${red('WIDER than its parent')}` : window;
}

function showConsent(consent: JsonValue | undefined): Rows {
  if (!isJsonObject(consent)) return consent === undefined ? [] : [['drs_consent', showValue(consent)]];
  const { policy_hash, ...rest } = consent;
  return [
    ...showMembers('drs_consent', rest),
    ...(policy_hash === undefined ? [] : ([['drs_consent.policy_hash', shorten(policy_hash)]] as Rows)),
  ];
}

function showPolicy({ claims, policy_changes }: ReceiptReport): Rows {
  const policy = claims?.['policy'];
  if (policy_changes === undefined) return showMembers('policy', policy);
  if (policy_changes.length === 0) return [['policy', 'no limits, as its parent']];
  return policy_changes.map((change) => [`policy.${printable(change.member)}`, showChange(change)]);
}

function showChange({ change, from, to }: PolicyChange): string {
  const { dim, green, red } = coloursFor(process.stdout);
  const [now, before] = [to, from].map((value) => (value === undefined ? '(none)' : showValue(value, true)));
  switch (change) {
    case 'unchanged':
      return `${now}  ${dim('unchanged')}`;
    case 'narrowed':
      return `${now}  ${green(`narrowed from ${before}`)}`;
    case 'added':
      return `${now}  ${green('added')}`;
    case 'left out':
      return `${now}  ${dim(`left out; ${before} above still holds`)}`;
    case 'wider':
      return `${now}  ${red(`WIDER than ${before}`)}`;
  }
}

/** One row for each member of an object. If the value is not an object, one row for the value. */
function showMembers(name: string, value: JsonValue | undefined): Rows {
  if (value === undefined) return [];
  if (!isJsonObject(value) || Object.keys(value).length === 0) return [[name, showValue(value, true)]];
  return Object.entries(value).map(([member, item]) => [
    `${name}.${clip(printable(member))}`,
    showValue(item, true),
  ]);
}

function showMoment(value: JsonValue | undefined): string {
  return isCount(value) ? showTime(value) : value === undefined ? '(missing)' : showValue(value);
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
