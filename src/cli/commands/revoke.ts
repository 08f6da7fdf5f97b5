import type { Command } from 'commander';
import { isJsonObject } from '../../protocol/json.js';
import { CommandError, EXIT } from '../command-error.js';
import { readSecretFiles } from '../../service/configuration/secret-files.js';
import { parseIndex } from '../policy-options.js';
import { errorOf, postToService, unexpectedAnswer, type ServiceAnswer } from '../service.js';

/** `drs revoke` */
export function addRevoke(program: Command): void {
  program
    .command('revoke')
    .summary('revoke a receipt by its status list index')
    .description(
      'Has the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) refuse every receipt with this\ndrs_status_list_index from now on. Needs DRS_ADMIN_TOKEN, with the value that the service has, or\nDRS_ADMIN_TOKEN_FILE, a file with it. If the service has ADMIN_ON_METRICS_ADDR=1, set DRS_ADMIN_URL to that\naddress, such as http://127.0.0.1:9464. There is no undo.',
    )
    .argument('<index>', 'the status list index', parseIndex)
    .addHelpText(
      'after',
      `
Exit code: 0 recorded; 1 refused by the service; 2 usage or no answer from the service.

Examples:
  DRS_ADMIN_TOKEN=… npx drs-verify revoke 7
  DRS_ADMIN_TOKEN_FILE=/run/secrets/token DRS_ADMIN_URL=http://127.0.0.1:9464 npx drs-verify revoke 7 --reason 'key lost'`,
    )
    .option('--reason <text>', 'why, for the log of the service: up to 200 characters')
    .action(async (index: number, { reason }: { reason?: string }) => {
      const answer = await postToService(
        '/admin/revoke',
        JSON.stringify({ status_list_index: index, reason }),
        {
          Authorization: `Bearer ${readAdminToken()}`,
        },
      );
      requireRevoked(answer);
      process.stdout.write(`revoked: status list index ${index}\n`);
    });
}

function readAdminToken(): string {
  const { secrets, problems } = readSecretFiles(process.env, ['drsAdminToken']);
  const [problem] = problems;
  if (problem !== undefined) throw new CommandError(problem, 'name a file with the token of the service');
  const inFile = secrets.get('drsAdminToken');
  const token = inFile ?? process.env['DRS_ADMIN_TOKEN'] ?? '';
  // Check the token first: the error message of `fetch` for an invalid header value would contain it.
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new CommandError(
    token === ''
      ? 'DRS_ADMIN_TOKEN is not set'
      : `DRS_ADMIN_TOKEN${inFile === undefined ? '' : '_FILE'} holds a space or another character no token has`,
    'set it to the value of DRS_ADMIN_TOKEN that the service runs with, or DRS_ADMIN_TOKEN_FILE to a file with it',
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
  if (status === 404) {
    throw new CommandError(
      'the service has no /admin/revoke at this address',
      'with ADMIN_ON_METRICS_ADDR=1 it is on METRICS_ADDR: set DRS_ADMIN_URL to that, such as http://127.0.0.1:9464',
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
