import type { Command } from 'commander';
import { createConsent, issueRootDelegation, type Consent, type IssuedPolicy } from '../../issue/index.js';
import { toJcs } from '../../protocol/jcs.js';
import type { JsonObject } from '../../protocol/json.js';
import { chainText } from '../chain-file.js';
import { CommandError } from '../command-error.js';
import { readText, writeResult } from '../files.js';
import { readDid, readKeyFile } from '../key-file.js';
import { addPolicyOptions, parseIndex, readPolicy, type PolicyOptions } from '../policy-options.js';
import { printable } from '../terminal.js';
import { parseEnd, parseTime, showTime, TIME_FORMS, toExpiresAt } from '../times.js';

interface IssueOptions extends PolicyOptions {
  readonly key: string;
  readonly to: string;
  readonly cmd: string;
  readonly expires?: number | 'never';
  readonly notBefore?: number;
  readonly statusIndex?: number;
  readonly rootType: string;
  readonly consentText?: string;
  readonly consentMethod: string;
  readonly consentLocale: string;
  readonly consentSession?: string;
  readonly out?: string;
  readonly force?: true;
}

/** `drs issue` */
export function addIssue(program: Command): void {
  const now = Math.floor(Date.now() / 1000);
  const command = program
    .command('issue')
    .summary('give authority to a first delegate (root receipt)')
    .description(
      'Issues the receipt at the root of a chain: you, the principal, let a delegate act within a policy.\nSays what you agree to; the hash of that text goes into the receipt as your consent.',
    )
    .requiredOption('--key <file>', 'your private key')
    .requiredOption('--to <did|file>', 'the delegate: its DID or its .pub file')
    .option('--cmd <path>', 'the command path that is delegated', '/mcp/tools/call');
  addPolicyOptions(command)
    .option(
      '--expires <time>',
      `when it ends (default: an hour after its start): ${TIME_FORMS}; or never`,
      (text) => parseEnd(text, now),
    )
    .option('--not-before <time>', 'when it starts (default: now)', (text) => parseTime(text, now))
    .option(
      '--status-index <n>',
      'its index in the status list, by which `drs revoke` can end it',
      parseIndex,
    )
    .option('--root-type <type>', 'who stands at the root', 'human')
    .option('--consent-text <file>', 'the text that the person saw (default: a sentence made of the options)')
    .option('--consent-method <method>', 'how the person agreed', 'explicit-cli-command')
    .option('--consent-locale <tag>', 'the language of the text', 'en')
    .option('--consent-session <id>', 'the session of the consent (default: a random UUID)')
    .option('-o, --out <file>', 'where to write the chain (default: standard output)')
    .option('--force', 'replace the file where it exists')
    .addHelpText(
      'after',
      `
The file holds the chain so far, one receipt (JWT) a line, root first; \`drs delegate\` and \`drs invoke\` read it.

Examples:
  drs issue --key alice.key --to bot.pub --tool search --tool fetch --max-cost 5 -o root.jwt
  drs issue --key alice.key --to did:key:z6Mk… --tool search --expires 8h --status-index 7 -o root.jwt
  drs issue --key org.key --to bot.pub --root-type organisation --expires never --policy @policy.json`,
    )
    .action(async (options: IssueOptions) => {
      const key = await readKeyFile(options.key);
      const audience = await readDid(options.to);
      const policy = await readPolicy(options);
      requireLimits(policy, options);
      const notBefore = options.notBefore ?? now;
      const expiresAt = options.expires === undefined ? notBefore + 3600 : toExpiresAt(options.expires);
      const consent =
        options.rootType === 'human'
          ? await readConsent(options, { audience, policy, expiresAt, now })
          : undefined;
      const root = issueRootDelegation({
        key,
        audience,
        command: options.cmd,
        policy,
        now,
        notBefore,
        expiresAt,
        rootType: options.rootType,
        ...(consent && { consent }),
        ...(options.statusIndex !== undefined && { statusListIndex: options.statusIndex }),
      });
      await writeResult(options.out, chainText([root]), options);
    });
}

function requireLimits(policy: IssuedPolicy, options: IssueOptions): void {
  if (Object.keys(policy).length > 0 || options.policy !== undefined) return;
  throw new CommandError(
    'no limit was given, so the delegate could do anything under the command',
    "say what it may do, for example with --tool and --max-cost, or write --policy '{}' if you mean it",
  );
}

interface Agreement {
  readonly audience: string;
  readonly policy: IssuedPolicy;
  readonly expiresAt: number | null;
  readonly now: number;
}

async function readConsent(
  options: IssueOptions,
  { audience, policy, expiresAt, now }: Agreement,
): Promise<Consent> {
  // A policy's arrays are read-only, which JSON types cannot say.
  const limits = toJcs(policy as JsonObject);
  const until = expiresAt === null ? 'without end' : `until ${showTime(expiresAt)}`;
  const text =
    options.consentText === undefined
      ? `I let ${audience} act for me at ${options.cmd} ${until}, within this policy: ${limits}`
      : await readText(options.consentText, 'the consent text');
  process.stderr.write(`consent: ${printable(text)}\n`);
  return createConsent({
    text,
    locale: options.consentLocale,
    method: options.consentMethod,
    now,
    ...(options.consentSession !== undefined && { sessionId: options.consentSession }),
  });
}
