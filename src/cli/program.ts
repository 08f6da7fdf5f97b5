import { Command, CommanderError, Help } from 'commander';
import { EXIT, toCommandError, type ExitCode } from './command-error.js';
import { BUILD } from '../service/observe/build-info.js';
import { coloursFor, printable } from './terminal.js';

/** A file of `commands/`. */
interface CommandModule {
  /** What the help of the command says after its options. */
  readonly help?: string;
  /** Adds options and arguments to the command of this name, and what it does. */
  readonly define: (command: Command) => void;
}

/** What each command does, in the order of `drs --help`. Each has a module in `commands/`, loaded if it is given. */
const COMMANDS: Readonly<Record<string, string>> = {
  serve: 'run the verification service',
  guard: 'a gate in front of an MCP server over stdio, or of any HTTP tool',
  verify: 'ask the service for a verdict on a bundle',
  audit: 'show what a bundle or a chain says, offline',
  inspect: 'show a bundle in the browser, and why it is refused',
  keygen: 'make a key',
  issue: 'give authority to a first delegate (root receipt)',
  delegate: 'pass authority on to the next delegate',
  invoke: 'sign one call under a chain and make the bundle',
  sign: 'sign the calls of an agent that you cannot change',
  host: 'what to tell an MCP host, so that a server runs behind `sign` and `guard`',
  revoke: 'revoke a receipt, by its status list index or itself, or a key',
  revocations: 'list local revocations; move them from a file to Redis',
  log: 'find and count what decision logs say: who allowed a call, and why one was refused',
  usage: 'show how much of the limits of a receipt is used',
  tools: 'lines to begin a file of tools with, from the list of an MCP server',
  'status-list': 'make and change a status list',
};

const SESSION = `
A first session, with \`npx drs-verify serve\` running in another terminal:
  npx drs-verify keygen -o alice.key; npx drs-verify keygen -o bot.key; npx drs-verify keygen -o helper.key
  npx drs-verify issue    --key alice.key --to bot.pub --tool search --tool fetch --max-cost 5 --yes -o root.jwt
  npx drs-verify delegate --key bot.key --chain root.jwt --to helper.pub --tool search --max-cost 1 -o helper.jwt
  npx drs-verify invoke   --key helper.key --chain helper.jwt --tool-server https://tools.example \\
               --args '{"tool":"search","query":"tea","estimated_cost_usd":0.02}' -o bundle.json
  npx drs-verify verify bundle.json
  npx drs-verify audit bundle.json
  npx drs-verify inspect bundle.json`;

const help = new Help();
const program = new Command('drs-verify')
  .description('Delegation receipts (DRS 4.0): verify what an agent may do, and make chains by hand.')
  .version(`${BUILD.version} (commit ${BUILD.commit})`)
  .addHelpText('after', SESSION)
  .showHelpAfterError('  hint: add --help to see the usage and examples')
  .configureHelp({
    // That a repeatable option has no value by default says nothing.
    optionDescription: (option) => help.optionDescription(option).replace(/ ?\(default: \[\]\)$/, ''),
  })
  .enablePositionalOptions()
  .exitOverride();
for (const [name, summary] of Object.entries(COMMANDS)) program.command(name).summary(summary);
program.hook('preSubcommand', async (_, command) => {
  const { help: text = '', define } = (await import(`./commands/${command.name()}.js`)) as CommandModule;
  command.addHelpText('after', text);
  define(command);
  refuseRepeated(command);
});

// It is not an error if the reader of a pipe stops early (`npx drs-verify audit … | head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

// Commander's own `help` loads nothing, and answers the help about all where there is no such command.
const [, , first, second = ''] = process.argv;
const asked = first === 'help' && /^(?!help$)\w/.test(second) ? [second] : null;
if (asked !== null && Object.hasOwn(COMMANDS, second)) asked.push('--help');

try {
  await (asked === null ? program.parseAsync() : program.parseAsync(asked, { from: 'user' }));
} catch (error) {
  process.exitCode = report(error);
}

/** Of an option given twice, commander takes the last and says nothing, though another one may have set a limit. */
function refuseRepeated(command: Command): void {
  for (const option of command.options) {
    let times = 0;
    command.on(`option:${option.name()}`, () => {
      times++;
      // What may be repeated is collected in an array or an object, and a flag says the same twice.
      const isOne = ['string', 'number'].includes(typeof command.getOptionValue(option.attributeName()));
      if (times > 1 && isOne) command.error(`error: option '${option.flags}' is given twice, expected once`);
    });
  }
  command.commands.forEach(refuseRepeated);
}

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
