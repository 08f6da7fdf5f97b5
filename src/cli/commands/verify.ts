import { Option, type Command } from 'commander';
import { clock } from '../../issue/options.js';
import type { Verdict } from '../../client/index.js';
import { readVerdict } from '../../client/request.js';
import { argsOf, bindingFailure } from '../../gate/decide.js';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { bundleTextOf, withBody } from '../bundle-file.js';
import { CommandError, exitCodeOf, type ExitCode } from '../command-error.js';
import { readText } from '../files.js';
import { errorOf, postToService, unexpectedAnswer, type ServiceAnswer } from '../service.js';
import { aligned, coloursFor, printable, printableJson, showFailure } from '../terminal.js';
import { parseTime, TIME_FORMS } from '../times.js';
import type { JudgedAt } from '../verify-stream.js';

interface VerifyOptions {
  readonly body?: string;
  readonly json?: true;
  readonly stream?: true;
  readonly at?: JudgedAt;
  readonly url?: string;
}

/** `drs verify` */
export function addVerify(program: Command): void {
  program
    .command('verify')
    .summary('ask the service for a verdict on a bundle')
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
      (text) => (text === 'call' ? text : parseTime(text, clock())),
    )
    .addOption(
      new Option('--url <address>', 'with --stream: have the service there verify, by its rules').conflicts(
        'at',
      ),
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
        process.exitCode = await streamed(files, options);
        return;
      }
      const file = onlyFileOf(files, options);
      if (file === '-' && options.body === '-') {
        throw new CommandError(
          'bundle and body cannot both be standard input',
          'write one of them to a file',
        );
      }
      const bundle = bundleTextOf(await readText(file, 'a bundle'), file);
      const request =
        options.body === undefined
          ? bundle
          : withBody(bundle, await readText(options.body, 'a request body'));
      const verdict = verdictOf(await postToService('/verify', request), request);
      process.stdout.write(options.json ? `${printableJson(verdict, 2)}\n` : showVerdict(verdict, request));
      process.exitCode = exitCodeOf(verdict);
    });
}

async function streamed(files: readonly string[], { at = null, url }: VerifyOptions): Promise<ExitCode> {
  // Only this option needs the configuration of the service, which takes longer to load than the rest.
  const { openLocal, openRemote, verifyStream } = await import('../verify-stream.js');
  const verifier = url === undefined ? await openLocal(process.env, at) : openRemote(url);
  try {
    return await verifyStream(files.length === 0 ? ['-'] : files, verifier);
  } finally {
    await verifier.close();
  }
}

function onlyFileOf([file, ...others]: readonly string[], { at, url }: VerifyOptions): string {
  if (at !== undefined || url !== undefined)
    throw new CommandError(
      `--${at === undefined ? 'url' : 'at'} is for a stream`,
      `give --stream too, or ${at === undefined ? 'set DRS_VERIFY_URL instead' : 'leave it out'}`,
    );
  if (file === undefined)
    throw new CommandError("missing required argument 'bundle_file'", 'name a file, or - for standard input');
  if (others.length > 0)
    throw new CommandError(
      `${others.length + 1} files are given, expected one bundle`,
      'verify one after the other; or, of files with a bundle a line, all with --stream',
    );
  return file;
}

/** @param request the request that was sent. If it had a body, a valid verdict must have a `binding` */
function verdictOf(answer: ServiceAnswer, request: string): Verdict {
  if (answer.status === 400 && isJsonObject(answer.body) && typeof answer.body['error'] === 'string') {
    throw new CommandError(
      `the service could not parse the request: ${errorOf(answer.body)}`,
      'check the bundle file and the body file',
    );
  }
  const sent: unknown = JSON.parse(request);
  const hadBody = isJsonObject(sent) && Object.hasOwn(sent, 'body');
  const verdict = answer.status === 200 ? readVerdict(answer.text, hadBody) : null;
  if (verdict === null) throw unexpectedAnswer(answer);
  return verdict;
}

/** The verdict as text for people. It may quote the bundle, so all of it is escaped. */
function showVerdict(verdict: Verdict, request: string): string {
  const { bold, green, red } = coloursFor(process.stdout);
  if (!verdict.valid) return `${bold(red('invalid'))}  ${showFailure(verdict.error)}`;
  const { context, binding } = verdict;
  const rows: [string, string][] = [
    ['root principal', printable(context.root_principal)],
    ['chain depth', String(context.chain_depth)],
    ['leaf policy', printableJson(context.leaf_policy)],
  ];
  const isBound = binding === undefined || binding === 'match';
  if (binding !== undefined) rows.push(['binding', isBound ? 'match' : red(binding)]);
  const headline = isBound
    ? green('valid')
    : `${green('valid')}, ${red('but the body is not what was signed')}`;
  const shown = `${bold(headline)}\n${aligned(rows)}`;
  if (binding === undefined || binding === 'match') return shown;
  const sent = JSON.parse(request) as JsonObject;
  const call = { protocol: 'http', body: { kind: 'value', value: sent['body'] } } as const;
  return `${shown}  ${showFailure(bindingFailure(call, binding, argsOf(sent)))}`;
}
