import type { Command } from 'commander';
import { auditBundle } from '../audit-report.js';
import { showAudit } from '../audit-text.js';
import { bundleTextOf } from '../bundle-file.js';
import { isChainText, receiptsOf } from '../chain-file.js';
import { readText } from '../files.js';
import { printableJson } from '../terminal.js';

interface AuditOptions {
  readonly json?: true;
}

/** `drs audit` */
export function addAudit(program: Command): void {
  program
    .command('audit')
    .summary('show what a bundle or a chain says, offline')
    .description(
      'Shows the key fields of every receipt and of the invocation, and how the policy narrows from level to level.\nWorks offline and verifies nothing: signatures, time and revocation are for `npx drs-verify verify`.',
    )
    .argument(
      '<bundle_file>',
      'a bundle as JSON or as an X-DRS-Bundle header, or a chain; - for standard input',
    )
    .option('--json', 'print the report as JSON, with digests in full')
    .addHelpText(
      'after',
      `
Exit code: 0 shown, also where a receipt is malformed; 2 usage, or neither a bundle nor a chain.

Examples:
  npx drs-verify audit bundle.json
  npx drs-verify audit root.jwt
  npx drs-verify audit --json - < header.txt`,
    )
    .action(async (file: string, options: AuditOptions) => {
      const content = await readText(file, 'a bundle');
      const bundle: unknown = isChainText(content)
        ? { receipts: receiptsOf(content) }
        : JSON.parse(bundleTextOf(content, file));
      const report = auditBundle(bundle);
      process.stdout.write(options.json ? `${printableJson(report, 2)}\n` : showAudit(report));
    });
}
