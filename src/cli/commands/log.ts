import { createReadStream } from 'node:fs';
import { pipeline, Writable, type Readable } from 'node:stream';
import { pipeline as finished } from 'node:stream/promises';
import { constants, createGunzip } from 'node:zlib';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { linesOf, write } from '../../relay/lines.js';
import { readJson } from '../../relay/message.js';
import { shapeOf } from '../log-lines.js';
import { readRootNames, type NameOf } from '../agreement.js';
import type { CommandError } from '../command-error.js';
import { unreadable } from '../files.js';
import { collect, parsePast } from '../options.js';
import { defineSealed, MAX_LINE_BYTES } from '../sealed-logs.js';
import { aligned, dim, green, printable, showJson, red } from '../terminal.js';

interface LogOptions {
  /** Unix seconds. */
  readonly since?: number;
  readonly until?: number;
  readonly refused?: true;
  readonly with?: readonly string[];
  readonly by?: readonly string[];
  readonly json?: true;
  readonly as?: 'ocsf';
}

/** How many combinations are counted separately: each takes memory. */
const MAX_GROUPS = 10_000;

export const help = `
Examples:
  npx drs-verify log decisions.jsonl* --since 7d --refused --by code,person,tool
  npx drs-verify log decisions.jsonl --with did:key:z6Mk…
  npx drs-verify log decisions.jsonl --with inv:0b1c2d3e --json
  npx drs-verify log decisions.jsonl --as ocsf
  npx drs-verify log check decisions.jsonl* --key gate.pub
  npx drs-verify log prove inv:0b1c2d3e decisions.jsonl* --key gate.pub -o proof.json`;

export function define(command: Command): void {
  command
    .description(
      'Reads decision logs and records of `sign`: prints lines, or counts them. With TRUSTED_ROOTS_FILE, principals have their names also in lines without them.',
    )
    .argument('[file...]', 'files of lines, packed ones as *.gz; - for standard input, as without a file')
    .option('--since <time>', 'only lines from then on: 90s, 30m, 8h or 7d ago; or a time', parsePast)
    .option('--until <time>', 'only lines from before', parsePast)
    .option('--refused', 'only what was refused')
    .option(
      '--with <text>',
      'only lines in which this DID, digest, id, name, code or consent stands; repeatable: all of them',
      collect,
    )
    .option(
      '--by <names>',
      `count the lines by these, separated by commas: ${Object.keys(GROUPS).join(', ')}`,
      readNames,
    )
    .option('--json', 'print JSON, an object a line')
    .addOption(
      new Option('--as <form>', 'print JSON as others name it: OCSF, class API Activity')
        .choices(['ocsf'])
        .conflicts('by'),
    )
    .action(run);
  defineSealed(command, hasAll);
}

async function run(files: readonly string[], options: LogOptions): Promise<void> {
  const nameOf = await readRootNames();
  const isWanted = filterOf(options);
  const { by, json, as } = options;
  const counts = new Map<string, { readonly values: readonly string[]; count: number }>();
  let [others, unread, text] = [0, 0, ''];
  const take = (line: JsonObject | null) => {
    if (line === null) unread++;
    if (line === null || !isWanted(line)) return;
    if (by === undefined) {
      if (as === 'ocsf') text += `${showJson(toOcsf(line, nameOf))}\n`;
      else text += json ? `${showJson(line)}\n` : showLine(line, nameOf);
      return;
    }
    const values = by.map((name) => GROUPS[name]?.(line, nameOf) ?? '-');
    const key = values.join('\0');
    const group = counts.get(key);
    if (group !== undefined) group.count++;
    else if (counts.size < MAX_GROUPS) counts.set(key, { values, count: 1 });
    else others++;
  };
  const failures: CommandError[] = [];
  const sources = (files.length === 0 ? ['-'] : files).map((file) =>
    pagesOf(file, (failure) => failures.push(failure)),
  );
  // Sums have no order, and too many files should not be open at once.
  for (const group of by === undefined ? [sources] : sources.map((source) => [source]))
    for await (const page of inOrder(group)) {
      for (const line of page) take(line);
      await write(process.stdout, text);
      text = '';
    }
  if (by !== undefined) await write(process.stdout, showCounts([...counts.values()], others, options));
  if (unread > 0)
    process.stderr.write(`note: ${unread} lines cannot be read: they were cut, or are no JSON\n`);
  if (failures[0] !== undefined) throw failures[0];
}

type Page = readonly (JsonObject | null)[];

/** Not the log of a service: it has only some refusals, and those of the decision log a second time. */
const CALLS: ReadonlySet<string | undefined> = new Set(['call', 'refund', 'signing', 'approval']);

/**
 * The lines of a file that say something of calls; `null` for one that cannot be read. It is unpacked if its name says that it is
 * packed: of one that is cut, all that there are.
 *
 * @param fail is told why it ends early: what comes before counts
 */
async function* pagesOf(file: string, fail: (failure: CommandError) => void): AsyncGenerator<Page> {
  const isPacked = file.endsWith('.gz');
  try {
    const input: Readable = file === '-' ? process.stdin : createReadStream(file);
    // An error of either is thrown where this is read.
    const unpacked = isPacked
      ? pipeline(input, createGunzip({ finishFlush: constants.Z_SYNC_FLUSH }), () => undefined)
      : input;
    for await (const lines of linesOf(unpacked, MAX_LINE_BYTES)) {
      // After a full disk, an empty line may follow one that was cut.
      const values = lines
        .filter(({ bytes }) => bytes.length > 0)
        .map(({ bytes, isTooLong }) => (isTooLong ? undefined : readJson(bytes.toString())));
      const read = values.map((value) => (isJsonObject(value) ? value : null));
      yield read.filter((line) => line === null || CALLS.has(shapeOf(line)?.kind));
    }
    // That it is cut does not show where it is read to its end.
    const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
    if (isPacked) await finished(createReadStream(file), createGunzip(), nowhere);
  } catch (error) {
    fail(unreadable(file, 'a log', error));
  }
}

/** The lines of files, each of which is in the order of time, in that order. */
async function* inOrder(sources: readonly AsyncGenerator<Page>[]): AsyncGenerator<Page> {
  // One that cannot be read has no time: it comes at once.
  const timeOf = (line: Page[number] | undefined) => textOf(line?.['time']);
  let heads = sources.map((source) => ({ source, page: [] as Page }));
  for (;;) {
    for (const head of heads) {
      while (head.page.length === 0) {
        const next = await head.source.next();
        if (next.done === true) break;
        head.page = next.value;
      }
    }
    heads = heads
      .filter(({ page }) => page.length > 0)
      .toSorted((one, other) => inTextOrder(timeOf(one.page[0]), timeOf(other.page[0])));
    const [first, second] = heads;
    if (first === undefined) return;
    const until = second && timeOf(second.page[0]);
    const later = until === undefined ? -1 : first.page.findIndex((line) => timeOf(line) > until);
    const end = later < 0 ? first.page.length : later;
    yield first.page.slice(0, end);
    first.page = first.page.slice(end);
  }
}

function filterOf(options: LogOptions): (line: JsonObject) => boolean {
  const { since, until, refused, with: texts = [] } = options;
  // All times have the same form, whose order is that of their texts; `~` comes after each.
  const textAt = (secs: number) => new Date(secs * 1000).toISOString();
  const [from, to] = [since === undefined ? '' : textAt(since), until === undefined ? '~' : textAt(until)];
  const isRefused = ({ code, observed, refund = 'done', binding = 'match' }: JsonObject) =>
    observed !== true && (typeof code === 'string' || refund !== 'done' || binding !== 'match');
  return (line) =>
    textOf(line['time']) >= from &&
    textOf(line['time']) < to &&
    (refused !== true || isRefused(line)) &&
    hasAll(line, texts);
}

/** Whether each text is a member of a line, an item of one, or what was agreed or approved. */
function hasAll({ agreed, approval, ...line }: JsonObject, texts: readonly string[]): boolean {
  const values = [line, agreed, approval].flatMap((part) => (isJsonObject(part) ? Object.values(part) : []));
  const has = (text: string) =>
    values.some((value) => (Array.isArray(value) ? value.includes(text) : value === text));
  return texts.every(has);
}

const inTextOrder = (one: string, other: string) => Number(one > other) - Number(one < other);

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '-');

function outcomeOf({ code, observed, refund, event, endpoint, binding = 'match' }: JsonObject): string {
  if (typeof code === 'string') return observed === true ? `observed ${code}` : code;
  // Whoever asked /verify refuses this call itself.
  if (binding !== 'match') return `binding ${textOf(binding)}`;
  if (typeof refund === 'string') return `refund ${refund}`;
  if (typeof event === 'string') return `question ${event}`;
  return endpoint === 'sign' ? 'signed' : 'allowed';
}

// prettier-ignore
const GOOD: ReadonlySet<string> = new Set([
  'allowed', 'signed', 'refund done', 'question asked', 'question approved', 'question used',
]);

function personOf({ rootName, rootPrincipal }: JsonObject, nameOf: NameOf): string {
  const did = textOf(rootPrincipal);
  return typeof rootName === 'string' ? rootName : (nameOf(did) ?? did);
}

const GROUPS: Readonly<Record<string, (line: JsonObject, nameOf: NameOf) => string>> = {
  code: outcomeOf,
  person: personOf,
  agent: ({ agent }) => textOf(agent),
  tool: ({ tool }) => textOf(tool),
  command: ({ command }) => textOf(command),
  address: ({ address }) => textOf(address),
  instance: ({ instance }) => textOf(instance),
  day: ({ time }) => textOf(time).slice(0, 10),
  hour: ({ time }) => textOf(time).slice(0, 13),
};

function readNames(text: string): string[] {
  const names = text.split(',').map((name) => name.trim());
  const odd = names.find((name) => !Object.hasOwn(GROUPS, name));
  if (odd === undefined && new Set(names).size === names.length) return names;
  throw new InvalidArgumentError(`Expected some of ${Object.keys(GROUPS).join(', ')}, each once.`);
}

/**
 * A line as an event of the class API Activity.
 *
 * @see https://schema.ocsf.io/1.4.0/classes/api_activity
 */
function toOcsf(line: JsonObject, nameOf: NameOf): object {
  const { time, agent, address, tool, command, toolServer, requestId, code } = line;
  const isGood = GOOD.has(outcomeOf(line));
  return {
    metadata: {
      version: '1.4.0',
      product: { name: 'drs-verify', vendor_name: 'drs-verify' },
      uid: requestId,
    },
    // Other: what a tool does is not known here.
    activity_id: 99,
    category_uid: 6,
    class_uid: 6003,
    type_uid: 600_399,
    severity_id: isGood ? 1 : 2,
    activity_name: textOf(tool ?? command),
    time: Date.parse(textOf(time)),
    status_id: isGood ? 1 : 2,
    status: outcomeOf(line),
    status_code: code,
    actor: { user: { uid: line['rootPrincipal'], name: personOf(line, nameOf) }, app_uid: agent },
    api: {
      operation: textOf(tool ?? command),
      service: { name: toolServer },
      request: { uid: textOf(requestId) },
    },
    src_endpoint: { ip: address },
    unmapped: line,
  };
}

/** A line for people: what came of a call, who asked for what, and why it was refused. */
function showLine(line: JsonObject, nameOf: NameOf): string {
  const { message, tool, command, agent, jti, time } = line;
  const outcome = outcomeOf(line);
  const colour = line['observed'] === true ? dim : GOOD.has(outcome) ? green : red;
  const asked = textOf(tool ?? command);
  const parts = [textOf(time), asked, personOf(line, nameOf), textOf(agent), textOf(jti)].map(printable);
  const [at = '', ...rest] = parts;
  const why = typeof message === 'string' ? `  ${dim(printable(message))}\n` : '';
  return `${at}  ${colour(printable(outcome))}  ${rest.join('  ')}\n${why}`;
}

function showCounts(
  groups: readonly { readonly values: readonly string[]; readonly count: number }[],
  others: number,
  { by = [], json }: LogOptions,
): string {
  const timeAt = by.findIndex((name) => name === 'hour' || name === 'day');
  const timeOf = ({ values }: (typeof groups)[number]) => values[timeAt] ?? '';
  const sorted = groups.toSorted(
    (one, other) => inTextOrder(timeOf(one), timeOf(other)) || other.count - one.count,
  );
  if (json) {
    const lines = sorted.map(({ values, count }) => ({
      count,
      ...Object.fromEntries(by.map((name, at) => [name, values[at]])),
    }));
    const rest = others === 0 ? [] : [{ count: others, others: true }];
    return [...lines, ...rest].map((line) => `${showJson(line)}\n`).join('');
  }
  const rows = sorted.map(({ values, count }) => [String(count), values.map(printable).join('  ')] as const);
  if (others > 0) rows.push([String(others), `(more than ${MAX_GROUPS} combinations: all others)`]);
  return aligned(rows, 0);
}
