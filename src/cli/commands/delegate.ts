import type { Command } from 'commander';
import { clock } from '../../issue/options.js';
import { issueSubDelegation, type IssuedPolicy } from '../../issue/index.js';
import { policyInForce } from '../../issue/plain-words.js';
import { readReceiptClaims, type ReceiptClaims } from '../../protocol/claims.js';
import { isKnownMember } from '../../protocol/policy.js';
import { parseCompactJwt } from '../../protocol/jwt.js';
import { isJsonObject } from '../../protocol/json.js';
import { agreementText, showText } from '../agreement.js';
import { chainText, readChainFile } from '../bundle-file.js';
import { requireFree, writeResult } from '../files.js';
import { addKeyOptions, readDid, readSigner, type KeyOptions } from '../key-file.js';
import { addGrantOptions, noteWithoutIndex, readPolicy, type GrantOptions } from '../policy-options.js';
import { readRootNames, type NameOf } from '../root-names.js';
import { printable } from '../terminal.js';
import { toExpiresAt } from '../times.js';

interface DelegateOptions extends GrantOptions, KeyOptions {
  readonly chain: string;
  readonly cmd?: string;
  readonly unchecked?: true;
}

/** `drs delegate` */
export function addDelegate(program: Command): void {
  const now = clock();
  const command = addKeyOptions(
    program
      .command('delegate')
      .summary('pass authority on to the next delegate')
      .description(
        'Adds a receipt to a chain: you, its last delegate, let another act within what you were given. What you do not mention stays as it is; what you mention can only get narrower. What would not verify is refused.',
      ),
  )
    .requiredOption(
      '--chain <file>',
      'the chain so far, as `npx drs-verify issue` or `npx drs-verify delegate` wrote it; - for standard input',
    )
    .option('--cmd <path>', "a command path at or below the parent's (default: the parent's)");
  addGrantOptions(command, now)
    .option('--unchecked', 'sign even what the service will refuse, to see its verdict')
    .addHelpText(
      'after',
      `
Exits with 1 where the receipt is refused.

Examples:
  npx drs-verify delegate --key bot.key --chain root.jwt --to helper.pub --tool search --max-cost 1 -o helper.jwt
  npx drs-verify delegate --key bot.key --chain root.jwt --to helper.pub --expires 10m --deny-write`,
    )
    .action(async (options: DelegateOptions) => {
      requireFree(options.out, options);
      const key = await readSigner(options);
      const chain = await readChainFile(options.chain);
      const audience = await readDid(options.to);
      const policy = { ...policyOf(chain.at(-1)), ...(await readPolicy(options)) };
      const receipt = await issueSubDelegation({
        key,
        chain,
        audience,
        policy,
        now,
        ...(options.cmd !== undefined && { command: options.cmd }),
        ...(options.notBefore !== undefined && { notBefore: options.notBefore }),
        ...(options.expires !== undefined && { expiresAt: toExpiresAt(options.expires) }),
        statusListIndex: options.statusIndex,
        ...(options.unchecked && { unchecked: true }),
      });
      showGrant([...chain, receipt], await readRootNames());
      noteWithoutIndex(options);
      await writeResult(options.out, chainText([...chain, receipt]), options);
    });
}

/** Shows what the last receipt of a chain passes on, with what holds for it although it does not repeat it. */
function showGrant(chain: readonly string[], nameOf: NameOf): void {
  const levels: { claims: ReceiptClaims }[] = [];
  for (const jwt of chain) {
    const parts = parseCompactJwt(jwt);
    const read =
      parts.defect === undefined
        ? readReceiptClaims(parts.payload, {
            isRoot: levels.length === 0,
            underHumanRoot: levels[0]?.claims.drs_root_type === 'human',
          })
        : parts;
    // --unchecked signs even under what cannot be read.
    if (read.defect !== undefined) return;
    levels.push(read);
  }
  const claims = levels.at(-1)?.claims;
  if (claims === undefined) return;
  const policy = policyInForce(levels.map(({ claims: { policy } }) => policy));
  const principal = nameOf(levels[0]?.claims.iss ?? '');
  const from = principal === null ? '' : `, which comes from ${printable(principal)}`;
  process.stderr.write(`You pass this on${from}:\n`);
  showText(
    agreementText(
      {
        audience: claims.aud,
        command: claims.cmd,
        policy,
        notBefore: claims.nbf,
        expiresAt: claims.exp ?? null,
      },
      nameOf,
    ),
  );
}

/**
 * The policy of a receipt, without null members. A child must repeat every member, except null, which sets no limit.
 * Empty if the receipt has no policy; issuing then refuses with a better message.
 */
function policyOf(jwt = ''): IssuedPolicy {
  const parts = parseCompactJwt(jwt);
  const policy = parts.defect === undefined ? parts.payload['policy'] : undefined;
  if (!isJsonObject(policy)) return {};
  const said = Object.entries(policy).filter(([name, value]) => value !== null || !isKnownMember(name));
  // Unknown members are included: issuing accepts every member of the parent.
  return Object.fromEntries(said);
}
