import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { addAudit } from './commands/audit.js';
import { EXIT, toCommandError, type ExitCode } from './command-error.js';
import { addDelegate } from './commands/delegate.js';
import { addInvoke } from './commands/invoke.js';
import { addIssue } from './commands/issue.js';
import { addKeygen } from './commands/keygen.js';
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
  addStatusList,
];

const SESSION = `
A first session, with \`drs serve\` running in another terminal:
  drs keygen -o alice.key; drs keygen -o bot.key; drs keygen -o helper.key
  drs issue    --key alice.key --to bot.pub --tool search --tool fetch --max-cost 5 --status-index 7 -o root.jwt
  drs delegate --key bot.key --chain root.jwt --to helper.pub --tool search --max-cost 1 -o helper.jwt
  drs invoke   --key helper.key --chain helper.jwt --tool-server https://tools.example \\
               --args '{"tool":"search","query":"tea"}' -o bundle.json
  drs verify bundle.json
  drs audit bundle.json`;

const program = new Command('drs')
  .description('Delegation receipts (DRS 4.0): verify what an agent may do, and make chains by hand.')
  .version(readVersion())
  .addHelpText('after', SESSION)
  .showHelpAfterError('  hint: add --help to see the usage and examples')
  .exitOverride();
for (const add of COMMANDS) add(program);

// A reader that has seen enough (`drs audit … | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Tells a person what went wrong. */
function report(error: unknown): ExitCode {
  // Commander has printed its own already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.failed;
  const { red, dim } = coloursFor(process.stderr);
  const known = toCommandError(error);
  if (known === null) {
    console.error(error);
    return EXIT.failed;
  }
  process.stderr.write(
    `${red('drs:')} ${printable(known.message)}\n  ${dim('hint:')} ${printable(known.hint)}\n`,
  );
  return known.exitCode;
}

function readVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
