import type { Command } from 'commander';
import { isJsonObject } from '../../protocol/json.js';
import { CommandError, EXIT } from '../command-error.js';
import { parseIndex } from '../policy-options.js';
import { errorOf, postToService, unexpectedAnswer, type ServiceAnswer } from '../service.js';

/** `drs revoke` */
export function addRevoke(program: Command): void {
  program
    .command('revoke')
    .summary('revoke a receipt by its status list index')
    .description(
      'Has the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) refuse every receipt with this\ndrs_status_list_index from now on. Needs DRS_ADMIN_TOKEN, with the value that the service has. There is no undo.',
    )
    .argument('<index>', 'the status list index', parseIndex)
    .addHelpText(
      'after',
      `
Exit code: 0 recorded; 1 refused by the service; 2 usage or no answer from the service.

Examples:
  DRS_ADMIN_TOKEN=… npx drs-verify revoke 7`,
    )
    .action(async (index: number) => {
      const answer = await postToService('/admin/revoke', JSON.stringify({ status_list_index: index }), {
        Authorization: `Bearer ${readAdminToken()}`,
      });
      requireRevoked(answer);
      process.stdout.write(`revoked: status list index ${index}\n`);
    });
}

function readAdminToken(): string {
  const token = process.env['DRS_ADMIN_TOKEN'] ?? '';
  // Check the token first: the error message of `fetch` for an invalid header value would contain it.
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new CommandError(
    token === ''
      ? 'DRS_ADMIN_TOKEN is not set'
      : 'DRS_ADMIN_TOKEN holds a space or another character no token has',
    'set it to the value of DRS_ADMIN_TOKEN that the service runs with',
  );
}

function requireRevoked(answer: ServiceAnswer): void {
  const { status, body } = answer;
  if (status === 200 && isJsonObject(body) && body['revoked'] === true) return;
  if (status === 401) {
    throw new CommandError(
      'the service refused: 401 unauthorized',
      'check that DRS_ADMIN_TOKEN is the one of this service',
      EXIT.no,
    );
  }
  if (status === 400 || status === 503) {
    throw new CommandError(
      `the service refused: ${status} ${errorOf(body)}`,
      status === 400 ? 'check the index' : 'look at the configuration and the log of the service',
      EXIT.no,
    );
  }
  throw unexpectedAnswer(answer);
}
