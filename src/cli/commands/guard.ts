import { Option, type Command } from 'commander';
import { helpOnVariables } from '../variables.js';
import { guard, PREFIX } from '../guard.js';
import { collect } from '../options.js';

/** Adds the options of `drs-verify guard`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Lets calls reach a tool server only if they are signed under a delegation that allows them. Takes the bundle out, ' +
        'and tells the tool server who acts for whom. Everything else passes as it is.\n' +
        'With a command behind --, it runs this MCP server and takes its place: standard input and output, standard error, ' +
        'signals and exit code are those of the server. With --to, it is a reverse proxy in front of one address.',
    )
    .argument('[command...]', 'the command of an MCP server that speaks over stdio, with its own options')
    .passThroughOptions()
    .option(
      '--trusted-root <did>',
      'a principal whose delegations count, as often as needed (DRS_TRUSTED_ROOTS); any: of anybody',
      collect,
    )
    .option(
      '--tool-server <name>',
      'the tool_server that calls are signed for (DRS_SERVER_IDENTITY); any: for any',
    )
    .option('--to <url>', 'the address of a tool server over HTTP; only its path is served')
    .option('--listen <address>', 'the address to listen on, such as 127.0.0.1:8443 (DRS_HOST and DRS_PORT)')
    .option('--allow-host <name>', 'another name by which --listen may be called; repeatable', collect)
    .addOption(
      new Option('--protocol <protocol>', 'what the tool server speaks, with --to; default: mcp').choices([
        'mcp',
        'a2a',
        'http',
      ]),
    )
    .option('--rpc <path>', 'with --protocol a2a: the one path of JSON-RPC; default: that of --to')
    .option(
      '--routes <file>',
      'with --protocol http: the table of routes (DRS_GATE_ROUTES); any: compare the body alone',
    )
    .option('--tools <file>', 'what its tools do: cost, write, read (DRS_TOOLS_FILE)')
    .option(
      '--state <folder>',
      'keep used calls and limits in this folder, which guards may share; without it they begin again with each start',
    )
    .option(
      '--check',
      'check the configuration and what it names, but no port, and exit: with 0 if it can work, else with 2',
    )
    .addHelpText(
      'after',
      `
Over stdio, the tool server finds the context of a call in params._meta["xyz.okeyamy.drs/context"]; over HTTP in the
headers X-DRS-…. What a client sends there is removed. A used call is refused (GATE_REPLAY, --state).

Examples:
  npx drs-verify guard --trusted-root did:key:z6Mk… --tool-server https://files.example -- node file-server.js /data
  npx drs-verify guard --trusted-root did:key:z6Mk… --tool-server https://tools.example --to http://127.0.0.1:3000/mcp --listen 127.0.0.1:8443
  npx drs-verify guard --trusted-root any --tool-server any --to http://127.0.0.1:3000 --protocol http --routes routes.json`,
    )
    .addHelpText('after', () => {
      const variables = helpOnVariables(({ isOfServe, isShared }) => !isOfServe && !isShared);
      const named = variables.replace(/^  (?=[A-Z])/gm, `  ${PREFIX}`);
      return `\nVariables, those of serve with a prefix:\n\n${named}`;
    })
    .action(guard);
}
