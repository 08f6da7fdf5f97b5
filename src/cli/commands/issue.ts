import type { Command } from 'commander';
import { clock } from '../../issue/options.js';
import { createConsent, generateKey, issueRootDelegation } from '../../issue/index.js';
import { agreementText, readRootNames, requireAgreement, showText } from '../agreement.js';
import { CommandError } from '../command-error.js';
import { chainText, readText, requireFree, writeResult } from '../files.js';
import { addKeyOptions, readDid, readSigner, type KeyOptions } from '../key-file.js';
import { addGrantOptions, addStatedOptions, noteWhatToKnow, readPolicy, readStated } from '../options.js';
import type { GrantOptions, StatedOptions } from '../options.js';

interface IssueOptions extends GrantOptions, StatedOptions, KeyOptions {
  readonly cmd: string;
  readonly rootType: string;
  readonly consentText?: string;
  readonly consentMethod: string;
  readonly consentLocale: string;
  readonly consentSession?: string;
  readonly yes?: true;
}

export const help = `
The file holds the chain so far, one receipt (JWT) a line, root first; \`npx drs-verify delegate\` and \`npx drs-verify invoke\` read it.

Examples:
  npx drs-verify issue --key alice.key --to bot.pub --tool search --tool fetch --max-cost 5 -o root.jwt
  npx drs-verify issue --key alice.key --to did:key:z6Mk… --tool search --expires 8h --status-index 4183 -o root.jwt
  npx drs-verify issue --key org.key --to bot.pub --root-type organisation --expires never --policy @policy.json`;

export function define(command: Command): void {
  addKeyOptions(command)
    .description(
      'Issues the receipt at the root of a chain: you, the principal, let a delegate act within a policy. Shows in plain words what you give away, and asks; the hash of that text goes into the receipt as your consent.',
    )
    .option('--cmd <path>', 'the command path that is delegated', '/mcp/tools/call');
  addStatedOptions(addGrantOptions(command))
    .option('--root-type <type>', 'who stands at the root', 'human')
    .option('--consent-text <file>', 'the text that the person saw (default: the options in plain words)')
    .option('--consent-method <method>', 'how the person agreed', 'explicit-cli-command')
    .option('--consent-locale <tag>', 'the language of the text', 'en')
    .option('--consent-session <id>', 'the session of the consent (default: a random UUID)')
    .option('--yes', 'do not ask: the person has agreed to the text already')
    .action(async (options: IssueOptions) => {
      requireFree(options.out, options);
      const key = await readSigner(options);
      const policy = await readPolicy(options);
      if (Object.keys(policy).length === 0 && options.policy === undefined)
        throw new CommandError(
          'no limit was given, so the delegate could do anything under the command',
          "say what it may do, for example with --tool and --max-cost, or write --policy '{}' if you mean it",
        );
      const now = clock();
      const { rootType, statusIndex: statusListIndex, notBefore = now } = options;
      const {
        consentText,
        consentMethod: method,
        consentLocale: locale,
        consentSession: sessionId,
      } = options;
      const isHuman = rootType === 'human';
      if (!isHuman && (consentText ?? sessionId) !== undefined)
        throw new CommandError(
          `there is a consent, and --root-type is ${JSON.stringify(rootType)}: only a human gives one`,
          'leave out --consent-text and --consent-session, or --root-type',
        );
      const { expires = notBefore + 3600 } = options;
      const expiresAt = expires === 'never' ? null : expires;
      const audience = await readDid(options.to);
      const delegation = { audience, command: options.cmd, policy, notBefore, expiresAt };
      const grant = agreementText(delegation, await readRootNames());
      // The exact text that the person sees.
      const text = consentText === undefined ? grant : await readText(consentText, 'the consent text');
      const consent = isHuman ? createConsent({ text, locale, method, now, sessionId }) : undefined;
      const stated = await readStated(options);
      const unsigned = { ...delegation, ...stated, now, rootType, statusListIndex, consent };
      // Errors come before the question: a key that nobody keeps finds them. Yours signs only what you agreed to.
      await issueRootDelegation({ ...unsigned, key: generateKey() });
      if (isHuman) {
        process.stderr.write('You agree to this:\n');
        showText(text);
        if (consentText !== undefined) {
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
