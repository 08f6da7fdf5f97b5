import type { Command } from 'commander';
import { readChain } from '../../issue/chain.js';
import { issueSubDelegation, type IssuedPolicy } from '../../issue/index.js';
import { policyInForce } from '../../issue/plain-words.js';
import { isKnownMember } from '../../protocol/policy.js';
import { agreementText, readRootNames, showText } from '../agreement.js';
import { chainText, readChainFile, requireFree, writeResult } from '../files.js';
import { addKeyOptions, readDid, readSigner, type KeyOptions } from '../key-file.js';
import { addGrantOptions, noteWhatToKnow, readPolicy, type GrantOptions } from '../options.js';
import { printable } from '../terminal.js';

interface DelegateOptions extends GrantOptions, KeyOptions {
  readonly chain: string;
  readonly cmd?: string;
  readonly unchecked?: true;
}

export const help = `
Exits with 1 where the receipt is refused.

Examples:
  npx drs-verify delegate --key bot.key --chain root.jwt --to helper.pub --tool search --max-cost 1 -o helper.jwt
  npx drs-verify delegate --key bot.key --chain root.jwt --to helper.pub --expires 10m --deny-write`;

export function define(command: Command): void {
  addKeyOptions(command)
    .description(
      'Adds a receipt to a chain: you, its last delegate, let another act within what you were given. What you do not mention stays as it is; what you mention can only get narrower. What would not verify is refused.',
    )
    .requiredOption(
      '--chain <file>',
      'the chain so far, as `npx drs-verify issue` or `npx drs-verify delegate` wrote it; - for standard input',
    )
    .option('--cmd <path>', "a command path at or below the parent's (default: the parent's)");
  addGrantOptions(command)
    .option('--unchecked', 'sign even what the service will refuse, to see its verdict')
    .action(async (options: DelegateOptions) => {
      requireFree(options.out, options);
      const key = await readSigner(options);
      const chain = await readChainFile(options.chain);
      const audience = await readDid(options.to);
      // Issuing accepts every member of the parent, also those that are not known, and wants each of them again, except null.
      const repeated = Object.entries(readChain(chain).at(-1)?.policy ?? {}).filter(
        ([name, value]) => value !== null || !isKnownMember(name),
      );
      const policy: IssuedPolicy = { ...Object.fromEntries(repeated), ...(await readPolicy(options)) };
      const { cmd: command, unchecked, notBefore, statusIndex: statusListIndex, expires } = options;
      const expiresAt = expires === 'never' ? null : expires;
      const grant = { audience, command, policy, notBefore, expiresAt, statusListIndex };
      const receipt = await issueSubDelegation({ key, chain, ...grant, unchecked });
      // What holds for it also where it does not repeat it.
      const receipts = readChain([...chain, receipt]);
      const [root] = receipts;
      const { aud, cmd, nbf, exp } = (receipts.at(-1) ?? root).claims;
      const inForce = policyInForce(receipts.map((one) => one.policy));
      const nameOf = await readRootNames();
      const principal = nameOf(root.claims.iss);
      const from = principal === null ? '' : `, which comes from ${printable(principal)}`;
      process.stderr.write(`You pass this on${from}:\n`);
      const shown = { audience: aud, command: cmd, policy: inForce, notBefore: nbf, expiresAt: exp };
      showText(agreementText(shown, nameOf));
      noteWhatToKnow(options, policy);
      await writeResult(options.out, chainText([...chain, receipt]), options);
    });
}
