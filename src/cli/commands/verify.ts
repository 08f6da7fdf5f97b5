import type { Command } from 'commander';
import type { Verdict } from '../../client/index.js';
import { readVerdict } from '../../client/read-verdict.js';
import { isJsonObject } from '../../protocol/json.js';
import { bundleTextOf, withBody } from '../bundle-file.js';
import { CommandError, EXIT, type ExitCode } from '../command-error.js';
import { readText } from '../files.js';
import { errorOf, postToService, unexpectedAnswer, type ServiceAnswer } from '../service.js';
import { aligned, coloursFor, printable, printableJson } from '../terminal.js';

interface VerifyOptions {
  readonly body?: string;
  readonly json?: true;
}

/** `drs verify` */
export function addVerify(program: Command): void {
  program
    .command('verify')
    .summary('ask the service for a verdict on a bundle')
    .description(
      'Sends a bundle to the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) and prints the verdict.',
    )
    .argument(
      '<bundle_file>',
      'a bundle as JSON, or the value of an X-DRS-Bundle header; - for standard input',
    )
    .option('--body <file>', 'the request body that the tool server received, compared with the signed args')
    .option('--json', "print the service's answer as JSON")
    .addHelpText(
      'after',
      `
Exit code: 0 valid; 1 invalid, or valid but the body is not what was signed (binding is not "match");
2 usage, unreadable file or no verdict from the service.

Examples:
  npx drs-verify verify bundle.json
  npx drs-verify verify bundle.json --body request.json
  DRS_VERIFY_URL=https://verify.example npx drs-verify verify --json - < header.txt`,
    )
    .action(async (file: string, options: VerifyOptions) => {
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
      process.stdout.write(options.json ? `${printableJson(verdict, 2)}\n` : showVerdict(verdict));
      process.exitCode = exitCodeOf(verdict);
    });
}

/** @param request the request that was sent. If it had a body, a valid verdict must have a `binding` */
function verdictOf(answer: ServiceAnswer, request: string): Verdict {
  if (answer.status === 400) {
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

function exitCodeOf(verdict: Verdict): ExitCode {
  return verdict.valid && (verdict.binding ?? 'match') === 'match' ? EXIT.ok : EXIT.no;
}

/** The verdict as text for people. It may quote the bundle, so all of it is escaped. */
function showVerdict(verdict: Verdict): string {
  const { bold, green, red, dim } = coloursFor(process.stdout);
  if (!verdict.valid) {
    const { code, message, suggestion } = verdict.error;
    return `${bold(red('invalid'))}  ${printable(code)}\n  ${printable(message)}\n  ${dim('hint:')} ${printable(suggestion)}\n`;
  }
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
  return `${bold(headline)}\n${aligned(rows)}`;
}
