import type { Command } from 'commander';
import { readText } from '../files.js';

interface InspectOptions {
  readonly open: boolean;
}

/** `drs inspect` */
export function addInspect(program: Command): void {
  program
    .command('inspect')
    .summary('show a bundle in the browser, and why it is refused')
    .description(
      'Serves the inspector on a free port of this machine, opens the browser, and runs until it is ended (Ctrl-C).\nThe page verifies by itself, with libsodium, and sends nothing anywhere.',
    )
    .argument(
      '[bundle_file]',
      'a bundle, an X-DRS-Bundle header, receipts, a request or a line of a log; - for standard input',
    )
    .option('--no-open', 'print the address, and open no browser')
    .addHelpText(
      'after',
      `
A fresh bundle is a live credential: the address has a secret part, and only programs that know it get the bundle.
To show the bundle to somebody, copy it from the page: it leaves out the signature, so nobody can make the call with it.

Examples:
  npx drs-verify inspect
  npx drs-verify inspect bundle.json
  tail -n 1 decisions.jsonl | npx drs-verify inspect --no-open -`,
    )
    .action(async (file: string | undefined, { open }: InspectOptions) => {
      const given = file === undefined ? null : await readText(file, 'a bundle');
      const { serveInspector } = await import('../inspector.js');
      const url = await serveInspector(given, open);
      process.stdout.write(`${url}\n`);
      if (given !== null)
        process.stderr.write(
          'Keep this address to yourself: it gives the bundle with its signature. To show it to somebody, copy it from the page, "Take it with you".\n',
        );
    });
}
