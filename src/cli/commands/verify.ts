import type { Command } from 'commander';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { bundleTextOf, spliceBody } from '../bundle-file.js';
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
          : spliceBody(bundle, await readText(options.body, 'a request body'));
      const verdict = readVerdict(await postToService('/verify', request));
      process.stdout.write(options.json ? `${printableJson(verdict, 2)}\n` : showVerdict(verdict));
      process.exitCode = exitCodeOf(verdict);
    });
}

type Verdict = JsonObject & { valid: boolean };

function readVerdict(answer: ServiceAnswer): Verdict {
  if (answer.status === 200 && isVerdict(answer.body)) return answer.body;
  if (answer.status === 400) {
    throw new CommandError(
      `the service could not parse the request: ${errorOf(answer.body)}`,
      'check the bundle file and the body file',
    );
  }
  throw unexpectedAnswer(answer);
}

function isVerdict(body: unknown): body is Verdict {
  return isJsonObject(body) && typeof body['valid'] === 'boolean';
}

function exitCodeOf({ valid, binding = 'match' }: Verdict): ExitCode {
  return valid && binding === 'match' ? EXIT.ok : EXIT.no;
}

/** A verdict for people. What the service says may quote the bundle, so nothing of it is printed as it is. */
function showVerdict({ valid, context, error, binding }: Verdict): string {
  const { bold, green, red, dim } = coloursFor(process.stdout);
  if (valid) {
    const details = isJsonObject(context) ? context : {};
    const rows: [string, string][] = [
      ['root principal', showMember(details['root_principal'])],
      ['chain depth', showMember(details['chain_depth'])],
      ['leaf policy', showMember(details['leaf_policy'])],
    ];
    const isBound = binding === undefined || binding === 'match';
    if (binding !== undefined) rows.push(['binding', isBound ? 'match' : red(showMember(binding))]);
    const headline = isBound
      ? green('valid')
      : `${green('valid')}, ${red('but the body is not what was signed')}`;
    return `${bold(headline)}\n${aligned(rows)}`;
  }
  const { code, message, suggestion } = isJsonObject(error) ? error : {};
  return `${bold(red('invalid'))}  ${showMember(code)}\n  ${showMember(message)}\n  ${dim('hint:')} ${showMember(suggestion)}\n`;
}

function showMember(value: unknown): string {
  if (value === undefined) return '(missing)';
  return typeof value === 'string' ? printable(value) : printableJson(value);
}
