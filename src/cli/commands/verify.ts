import type { Command } from 'commander';
import type { Verdict } from '../../client/index.js';
import { readVerdict } from '../../client/request.js';
import { argsOf, bindingFailure } from '../../gate/decide.js';
import type { JsonObject } from '../../protocol/json.js';
import { CommandError, EXIT } from '../command-error.js';
import { bundleTextOf, readText, withBody } from '../files.js';
import { askService, unexpectedAnswer } from '../service.js';
import { aligned, bold, green, printable, showJson, red, showFailure } from '../terminal.js';

export const help = `
Exit code: 0 valid; 1 invalid, or valid but the body is not what was signed (binding is not
"match"); 2 usage, unreadable file or no verdict from the service.

Examples:
  npx drs-verify verify bundle.json
  npx drs-verify verify bundle.json --body request.json
  DRS_VERIFY_URL=https://verify.example npx drs-verify verify --json - < header.txt`;

export function define(command: Command): void {
  command
    .description(
      'Sends a bundle to the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) and prints the verdict.',
    )
    .argument(
      '<bundle_file>',
      'a bundle as JSON, or the value of an X-DRS-Bundle header; - for standard input',
    )
    .option('--body <file>', 'the request body that the tool server received, compared with the signed args')
    .option('--json', 'print the answer of the service as JSON')
    .action(async (file: string, { body, json }: { readonly body?: string; readonly json?: true }) => {
      if (file === '-' && body === '-')
        throw new CommandError(
          'bundle and body cannot both be standard input',
          'write one of them to a file',
        );
      const bundle = bundleTextOf(await readText(file, 'a bundle'), file);
      const request =
        body === undefined ? bundle : withBody(bundle, await readText(body, 'a request body', true));
      const answer = await askService('/verify', request);
      // With a body, a valid verdict must have a `binding`.
      const hasBody = Object.hasOwn(JSON.parse(request) as object, 'body');
      const verdict = answer.status === 200 ? readVerdict(answer.text, hasBody) : null;
      if (verdict === null) throw unexpectedAnswer(answer);
      process.stdout.write(json ? `${showJson(verdict, 2)}\n` : showVerdict(verdict, request));
      process.exitCode = verdict.valid && (verdict.binding ?? 'match') === 'match' ? EXIT.ok : EXIT.no;
    });
}

/** The verdict as text for people. It may quote the bundle, so all of it is escaped. */
function showVerdict(verdict: Verdict, request: string): string {
  if (!verdict.valid) return `${bold(red('invalid'))}  ${showFailure(verdict.error)}`;
  const { context, binding = 'match' } = verdict;
  const isBound = binding === 'match';
  const rows: [string, string][] = [
    ['root principal', printable(context.root_principal)],
    ['chain depth', String(context.chain_depth)],
    ['leaf policy', showJson(context.leaf_policy)],
  ];
  if (verdict.binding !== undefined) rows.push(['binding', isBound ? 'match' : red(binding)]);
  const but = isBound ? '' : `, ${red('but the body is not what was signed')}`;
  const shown = `${bold(green('valid') + but)}\n${aligned(rows)}`;
  if (binding === 'match') return shown;
  const sent = JSON.parse(request) as JsonObject;
  const call = { protocol: 'http', body: { kind: 'value', value: sent['body'] } } as const;
  return `${shown}  ${showFailure(bindingFailure(call, binding, argsOf(sent)))}`;
}
