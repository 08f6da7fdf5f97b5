import type { Command } from 'commander';
import { clock } from '../../issue/options.js';
import {
  createConsent,
  generateKey,
  issueRootDelegation,
  type Consent,
  type IssuedPolicy,
} from '../../issue/index.js';
import { agreementText, requireAgreement, showText } from '../agreement.js';
import { chainText } from '../bundle-file.js';
import { CommandError } from '../command-error.js';
import { readText, requireFree, writeResult } from '../files.js';
import { addKeyOptions, readDid, readSigner, type KeyOptions } from '../key-file.js';
import { addGrantOptions, noteWhatToKnow, readPolicy, type GrantOptions } from '../policy-options.js';
import { readRootNames } from '../root-names.js';
import { toExpiresAt } from '../times.js';

interface IssueOptions extends GrantOptions, KeyOptions {
  readonly cmd: string;
  readonly rootType: string;
  readonly consentText?: string;
  readonly consentMethod: string;
  readonly consentLocale: string;
  readonly consentSession?: string;
  readonly yes?: true;
}

/** `drs issue` */
export function addIssue(program: Command): void {
  const now = clock();
  const command = addKeyOptions(
    program
      .command('issue')
      .summary('give authority to a first delegate (root receipt)')
      .description(
        'Issues the receipt at the root of a chain: you, the principal, let a delegate act within a policy. Shows in plain words what you give away, and asks; the hash of that text goes into the receipt as your consent.',
      ),
  ).option('--cmd <path>', 'the command path that is delegated', '/mcp/tools/call');
  addGrantOptions(command, now)
    .option('--root-type <type>', 'who stands at the root', 'human')
    .option('--consent-text <file>', 'the text that the person saw (default: the options in plain words)')
    .option('--consent-method <method>', 'how the person agreed', 'explicit-cli-command')
    .option('--consent-locale <tag>', 'the language of the text', 'en')
    .option('--consent-session <id>', 'the session of the consent (default: a random UUID)')
    .option('--yes', 'do not ask: the person has agreed to the text already')
    .addHelpText(
      'after',
      `
The file holds the chain so far, one receipt (JWT) a line, root first; \`npx drs-verify delegate\` and \`npx drs-verify invoke\` read it.

Examples:
  npx drs-verify issue --key alice.key --to bot.pub --tool search --tool fetch --max-cost 5 -o root.jwt
  npx drs-verify issue --key alice.key --to did:key:z6Mk… --tool search --expires 8h --status-index 4183 -o root.jwt
  npx drs-verify issue --key org.key --to bot.pub --root-type organisation --expires never --policy @policy.json`,
    )
    .action(async (options: IssueOptions) => {
      requireFree(options.out, options);
      const key = await readSigner(options);
      const policy = await readPolicy(options);
      requireLimits(policy, options);
      const notBefore = options.notBefore ?? now;
      const delegation = {
        audience: await readDid(options.to),
        command: options.cmd,
        policy,
        notBefore,
        expiresAt: options.expires === undefined ? notBefore + 3600 : toExpiresAt(options.expires),
      };
      const isHuman = options.rootType === 'human';
      const given = options.consentText ?? options.consentSession;
      if (!isHuman && given !== undefined)
        throw new CommandError(
          `there is a consent, and --root-type is ${JSON.stringify(options.rootType)}: only a human gives one`,
          'leave out --consent-text and --consent-session, or --root-type',
        );
      const grant = agreementText(delegation, await readRootNames());
      const text = isHuman ? await readConsentText(options, grant) : null;
      const consent = text === null ? {} : { consent: consentTo(text, options, now) };
      const unsigned = {
        ...delegation,
        now,
        rootType: options.rootType,
        statusListIndex: options.statusIndex,
        ...consent,
      };
      // Errors come before the question: a key that nobody keeps finds them. Yours signs only what you agreed to.
      await issueRootDelegation({ ...unsigned, key: generateKey() });
      if (text !== null) {
        process.stderr.write('You agree to this:\n');
        showText(text);
        if (options.consentText !== undefined) {
          process.stderr.write('which gives:\n');
          showText(grant);
        }
      }
      noteWhatToKnow(options, policy);
      if (isHuman && !options.yes) await requireAgreement();
      const root = await issueRootDelegation({ ...unsigned, key });
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

/** The exact text that the person sees. */
async function readConsentText(options: IssueOptions, grant: string): Promise<string> {
  if (options.consentText === undefined) return grant;
  return readText(options.consentText, 'the consent text');
}

function consentTo(text: string, options: IssueOptions, now: number): Consent {
  return createConsent({
    text,
    locale: options.consentLocale,
    method: options.consentMethod,
    now,
    ...(options.consentSession !== undefined && { sessionId: options.consentSession }),
  });
}
