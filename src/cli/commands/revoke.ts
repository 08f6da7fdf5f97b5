import type { Command } from 'commander';
import { isJsonObject } from '../../protocol/json.js';
import { adminHeaders, adminRefusal } from '../admin.js';
import { parseIndex } from '../policy-options.js';
import { postToService } from '../service.js';

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
        adminHeaders(),
      );
      const { status, body } = answer;
      if (status !== 200 || !isJsonObject(body) || body['revoked'] !== true) throw adminRefusal(answer);
      process.stdout.write(`revoked: status list index ${index}\n`);
    });
}
