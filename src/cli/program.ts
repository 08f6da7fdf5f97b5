import { Command, CommanderError, Help } from 'commander';
import { EXIT, toCommandError, type ExitCode } from './command-error.js';
import { BUILD } from '../service/observe/build-info.js';
import { coloursFor, printable } from './terminal.js';

type Add = (program: Command) => void;

/** In the order of `drs --help`. */
const COMMANDS: ReadonlyMap<string, () => Promise<Add>> = new Map([
  ['serve', async () => (await import('./commands/serve.js')).addServe],
  ['guard', async () => (await import('./commands/guard.js')).addGuard],
  ['demo', async () => (await import('./commands/demo.js')).addDemo],
  ['verify', async () => (await import('./commands/verify.js')).addVerify],
  ['audit', async () => (await import('./commands/audit.js')).addAudit],
  ['inspect', async () => (await import('./commands/inspect.js')).addInspect],
  ['keygen', async () => (await import('./commands/keygen.js')).addKeygen],
  ['issue', async () => (await import('./commands/issue.js')).addIssue],
  ['delegate', async () => (await import('./commands/delegate.js')).addDelegate],
  ['invoke', async () => (await import('./commands/invoke.js')).addInvoke],
  ['sign', async () => (await import('./commands/sign.js')).addSign],
  ['host', async () => (await import('./commands/host.js')).addHost],
  ['revoke', async () => (await import('./commands/revoke.js')).addRevoke],
  ['revocations', async () => (await import('./commands/revocations.js')).addRevocations],
  ['usage', async () => (await import('./commands/usage.js')).addUsage],
  ['roots', async () => (await import('./commands/roots.js')).addRoots],
  ['status-list', async () => (await import('./commands/status-list.js')).addStatusList],
]);

const SESSION = `
A first session, with \`npx drs-verify serve\` running in another terminal:
  npx drs-verify keygen -o alice.key; npx drs-verify keygen -o bot.key; npx drs-verify keygen -o helper.key
  npx drs-verify issue    --key alice.key --to bot.pub --tool search --tool fetch --max-cost 5 --yes -o root.jwt
  npx drs-verify delegate --key bot.key --chain root.jwt --to helper.pub --tool search --max-cost 1 -o helper.jwt
  npx drs-verify invoke   --key helper.key --chain helper.jwt --tool-server https://tools.example \\
               --args '{"tool":"search","query":"tea"}' -o bundle.json
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
// Loading all takes longer than most commands. Where the first word names none, commander shows or suggests them.
const named = COMMANDS.get(process.argv[2] ?? '');
for (const load of named === undefined ? COMMANDS.values() : [named]) (await load())(program);

refuseRepeated(program);

// It is not an error if the reader of a pipe stops early (`npx drs-verify audit … | head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

// Commander answers `help` about a command that does not exist with the help about all.
const [, , first, second = ''] = process.argv;
const isUnknown = first === 'help' && /^(?!help$)\w/.test(second) && !COMMANDS.has(second);

try {
  await (isUnknown ? program.parseAsync([second], { from: 'user' }) : program.parseAsync());
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
