import { Option, type Command } from 'commander';
import type { Verdict } from '../../client/index.js';
import { readVerdict } from '../../client/request.js';
import { argsOf, bindingFailure } from '../../gate/decide.js';
import type { JsonObject } from '../../protocol/json.js';
import { CommandError, exitCodeOf } from '../command-error.js';
import { bundleTextOf, readText, withBody } from '../files.js';
import { askService, unexpectedAnswer } from '../service.js';
import { parseTime, TIME_FORMS } from '../options.js';
import { aligned, coloursFor, printable, printableJson, showFailure } from '../terminal.js';

import type { JudgedAt } from '../verify-stream.js';

interface VerifyOptions {
  readonly body?: string;
  readonly json?: true;
  readonly stream?: true;
  readonly at?: JudgedAt;
}

/** Adds the options of `drs-verify verify`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Sends a bundle to the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) and prints the verdict.\n' +
        'With --stream, verifies many bundles in this process, one a line, and prints a verdict a line.',
    )
    .argument(
      '[bundle_file...]',
      'a bundle as JSON, or the value of an X-DRS-Bundle header; with --stream any number of files with a bundle a line; - for standard input',
    )
    .option('--body <file>', 'the request body that the tool server received, compared with the signed args')
    .option('--json', 'print the answer of the service as JSON')
    .addOption(
      new Option(
        '--stream',
        'verify a bundle a line (NDJSON), print a verdict a line in the same order',
      ).conflicts(['body', 'json']),
    )
    .option(
      '--at <time>',
      `with --stream: verify as of this time (${TIME_FORMS}); call: each as of when it says it was signed`,
      (text) => (text === 'call' ? text : parseTime(text)),
    )
    .addHelpText(
      'after',
      `
With --stream, each line is a bundle, also with a "body". Trust, revocation and limits are those of the variables of the
service (TRUSTED_ROOTS, STATUS_LIST_BASE_URL, …); whether a call was used before is not checked. A line that is no JSON
gets { "error", "status" }, and the exit code is then 2.

Exit code: 0 valid; 1 invalid, or valid but the body is not what was signed (binding is not
"match"); 2 usage, unreadable file or no verdict from the service.

Examples:
  npx drs-verify verify bundle.json
  npx drs-verify verify bundle.json --body request.json
  zcat calls-*.jsonl.gz | npx drs-verify verify --stream --at call > verdicts.jsonl
  DRS_VERIFY_URL=https://verify.example npx drs-verify verify --json - < header.txt`,
    )
    .action(async (files: readonly string[], options: VerifyOptions) => {
      if (options.stream) {
        // Only this option needs the configuration of the service, which takes longer to load than the rest.
        const { verifyStream } = await import('../verify-stream.js');
        process.exitCode = await verifyStream(files.length === 0 ? ['-'] : files, options.at ?? null);
        return;
      }
      const file = onlyFileOf(files, options);
      const bundle = bundleTextOf(await readText(file, 'a bundle'), file);
      const request =
        options.body === undefined
          ? bundle
          : withBody(bundle, await readText(options.body, 'a request body', true));
      const answer = await askService('/verify', request);
      // With a body, a valid verdict must have a `binding`.
      const verdict =
        answer.status === 200
          ? readVerdict(answer.text, Object.hasOwn(JSON.parse(request) as object, 'body'))
          : null;
      if (verdict === null) throw unexpectedAnswer(answer);
      process.stdout.write(options.json ? `${printableJson(verdict, 2)}\n` : showVerdict(verdict, request));
      process.exitCode = exitCodeOf(verdict);
    });
}

function onlyFileOf([file, ...others]: readonly string[], { at, body }: VerifyOptions): string {
  if (at !== undefined) throw new CommandError('--at is for a stream', 'give --stream too, or leave it out');
  if (file === undefined)
    throw new CommandError("missing required argument 'bundle_file'", 'name a file, or - for standard input');
  if (others.length > 0)
    throw new CommandError(
      `${others.length + 1} files are given, expected one bundle`,
      'verify one after the other; or, of files with a bundle a line, all with --stream',
    );
  if (file === '-' && body === '-')
    throw new CommandError('bundle and body cannot both be standard input', 'write one of them to a file');
  return file;
}

/** The verdict as text for people. It may quote the bundle, so all of it is escaped. */
function showVerdict(verdict: Verdict, request: string): string {
  const { bold, green, red } = coloursFor(process.stdout);
  if (!verdict.valid) return `${bold(red('invalid'))}  ${showFailure(verdict.error)}`;
  const { context, binding = 'match' } = verdict;
  const isBound = binding === 'match';
  const rows: [string, string][] = [
    ['root principal', printable(context.root_principal)],
    ['chain depth', String(context.chain_depth)],
    ['leaf policy', printableJson(context.leaf_policy)],
  ];
  if (verdict.binding !== undefined) rows.push(['binding', isBound ? 'match' : red(binding)]);
  const but = isBound ? '' : `, ${red('but the body is not what was signed')}`;
  const shown = `${bold(green('valid') + but)}\n${aligned(rows)}`;
  if (binding === 'match') return shown;
  const sent = JSON.parse(request) as JsonObject;
  const call = { protocol: 'http', body: { kind: 'value', value: sent['body'] } } as const;
  return `${shown}  ${showFailure(bindingFailure(call, binding, argsOf(sent)))}`;
}
