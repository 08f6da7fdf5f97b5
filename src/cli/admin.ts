import { readSecretFiles } from '../service/configuration/secret-files.js';
import { CommandError, EXIT } from './command-error.js';
import { errorOf, unexpectedAnswer, type ServiceAnswer } from './service.js';

/**
 * The header with the admin token of the service.
 *
 * @throws CommandError if there is none, or one that no request can carry
 */
export function adminHeaders(): Readonly<Record<string, string>> {
  return { Authorization: `Bearer ${readAdminToken()}` };
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

/** The error for an answer of an `/admin` endpoint that is no success. */
export function adminRefusal(answer: ServiceAnswer): CommandError {
  const { status, body } = answer;
  if (status === 401)
    return new CommandError(
      'the service refused: 401 unauthorized',
      'check that DRS_ADMIN_TOKEN is the one of this service',
      EXIT.no,
    );
  if (status === 404)
    return new CommandError(
      'the service has no /admin at this address',
      'with ADMIN_ON_METRICS_ADDR=1 it is on METRICS_ADDR: set DRS_ADMIN_URL to that, such as http://127.0.0.1:9464',
      EXIT.no,
    );
  if (status === 400 || status === 503)
    return new CommandError(
      `the service refused: ${status} ${errorOf(body)}`,
      status === 400 ? 'check what is to be revoked' : 'look at the configuration and the log of the service',
      EXIT.no,
    );
  return unexpectedAnswer(answer);
}
