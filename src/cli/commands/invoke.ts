import type { Command } from 'commander';
import { issueCall } from '../../issue/delegation.js';
import { createBundle, encodeBundle, issueInvocation } from '../../issue/index.js';
import { readChainFile, readToolsFile, requireFree, writeResult } from '../files.js';
import { addKeyOptions, readSigner, type KeyOptions } from '../key-file.js';
import { addStatedOptions, readJsonObject, readStated, type StatedOptions } from '../options.js';

interface InvokeOptions extends StatedOptions, KeyOptions {
  readonly chain: string;
  readonly toolServer: string;
  readonly args: string;
  readonly cmd?: string;
  readonly tools?: string;
  readonly header?: true;
  readonly unchecked?: true;
  readonly out?: string;
  readonly force?: true;
}

export const help = `
Exits with 1 where the call is refused.

Examples:
  npx drs-verify invoke --key helper.key --chain helper.jwt --tool-server https://tools.example \\
    --args '{"tool":"search","query":"tea","estimated_cost_usd":0.02}' -o bundle.json
  npx drs-verify invoke … --args @call.json --header > header.txt`;

export function define(command: Command): void {
  addStatedOptions(addKeyOptions(command))
    .description(
      'Signs one call: you, the last delegate of a chain, call a tool with these arguments. Writes the bundle that the tool server verifies. A call that would not verify is refused.',
    )
    .requiredOption(
      '--chain <file>',
      'the chain, as `npx drs-verify issue` or `npx drs-verify delegate` wrote it; - for standard input',
    )
    .requiredOption(
      '--tool-server <id>',
      'the tool server that the call is for: its DID, or the name it goes by',
    )
    .requiredOption('--args <json>', 'the arguments of the call as a JSON object, or @file')
    .option('--cmd <path>', "a command path at or below the chain's (default: the chain's)")
    .option('--tools <file>', "what the tool server's operator says of its tools (TOOLS_FILE)")
    .option('--header', 'write the value of an X-DRS-Bundle header instead of JSON')
    .option('--unchecked', 'sign even what the service will refuse, to see its verdict')
    .option('-o, --out <file>', 'where to write the bundle (default: standard output)')
    .option('--force', 'replace the file where it exists')
    .action(async (options: InvokeOptions) => {
      requireFree(options.out, options);
      const key = await readSigner(options);
      const receipts = await readChainFile(options.chain);
      const tools = await readToolsFile(options.tools);
      const call = {
        key,
        chain: receipts,
        args: await readJsonObject(options.args, '--args'),
        toolServer: options.toolServer,
        command: options.cmd,
        unchecked: options.unchecked,
        ...(await readStated(options)),
      };
      const invocation = await (tools === null ? issueInvocation(call) : issueCall(call, tools));
      const bundle = createBundle({ receipts, invocation });
      const text = options.header ? encodeBundle(bundle) : JSON.stringify(bundle, null, 2);
      await writeResult(options.out, `${text}\n`, options);
    });
}
