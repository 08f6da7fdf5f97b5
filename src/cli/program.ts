import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { addAudit } from './commands/audit.js';
import { EXIT, toCommandError, type ExitCode } from './command-error.js';
import { addDelegate } from './commands/delegate.js';
import { addInvoke } from './commands/invoke.js';
import { addIssue } from './commands/issue.js';
import { addKeygen } from './commands/keygen.js';
import { addRevocations } from './commands/revocations.js';
import { addRevoke } from './commands/revoke.js';
import { addServe } from './commands/serve.js';
import { addStatusList } from './commands/status-list.js';
import { addVerify } from './commands/verify.js';
import { coloursFor, printable } from './terminal.js';

// In the order of `drs --help`.
const COMMANDS = [
  addServe,
  addVerify,
  addAudit,
  addKeygen,
  addIssue,
  addDelegate,
  addInvoke,
  addRevoke,
  addRevocations,
  addStatusList,
];

const SESSION = `
A first session, with \`npx drs-verify serve\` running in another terminal:
  npx drs-verify keygen -o alice.key; npx drs-verify keygen -o bot.key; npx drs-verify keygen -o helper.key
  npx drs-verify issue    --key alice.key --to bot.pub --tool search --tool fetch --max-cost 5 --status-index 7 --yes -o root.jwt
  npx drs-verify delegate --key bot.key --chain root.jwt --to helper.pub --tool search --max-cost 1 -o helper.jwt
  npx drs-verify invoke   --key helper.key --chain helper.jwt --tool-server https://tools.example \\
               --args '{"tool":"search","query":"tea"}' -o bundle.json
  npx drs-verify verify bundle.json
  npx drs-verify audit bundle.json`;

const program = new Command('drs-verify')
  .description('Delegation receipts (DRS 4.0): verify what an agent may do, and make chains by hand.')
  .version(readVersion())
  .addHelpText('after', SESSION)
  .showHelpAfterError('  hint: add --help to see the usage and examples')
  .exitOverride();
for (const add of COMMANDS) add(program);

// It is not an error if the reader of a pipe stops early (`npx drs-verify audit … | head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Prints an error for a person. */
function report(error: unknown): ExitCode {
  // Commander has already printed its own errors.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.failed;
  const { red, dim } = coloursFor(process.stderr);
  const known = toCommandError(error);
  if (known === null) {
    console.error(error);
    return EXIT.failed;
  }
  process.stderr.write(
    `${red('drs-verify:')} ${printable(known.message)}\n  ${dim('hint:')} ${printable(known.hint)}\n`,
  );
  return known.exitCode;
}

function readVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
