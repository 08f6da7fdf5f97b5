import type { Command } from 'commander';
import { digestOf } from '../../protocol/jwt.js';
import { isJsonObject, type JsonValue } from '../../protocol/json.js';
import { show } from '../../verify/codes.js';
import { adminHeaders, adminRefusal } from '../admin.js';
import { readChainFile } from '../bundle-file.js';
import { getFromService, parseJson } from '../service.js';

const DIGEST = /^sha256:[\da-f]{64}$/;

/** `drs usage` */
export function addUsage(program: Command): void {
  program
    .command('usage')
    .summary('show how much of the limits of a receipt is used')
    .description(
      'Shows how many calls the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) has allowed under a receipt with max_calls or max_total_cost_usd, and what they cost. Needs DRS_ADMIN_TOKEN, with the value that the service has, or DRS_ADMIN_TOKEN_FILE, a file with it. If the service has ADMIN_ON_METRICS_ADDR=1, set DRS_ADMIN_URL to that address, such as http://127.0.0.1:9464.',
    )
    .argument('<receipt>', 'a file with the receipt, of a chain the last one; or its digest, sha256:…')
    .addHelpText(
      'after',
      `
Exit code: 0 shown; 1 refused by the service; 2 usage or no answer from the service.

Examples:
  DRS_ADMIN_TOKEN=… npx drs-verify usage root.jwt
  DRS_ADMIN_TOKEN=… npx drs-verify usage sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
    )
    .action(async (receipt: string) => {
      const digest = DIGEST.test(receipt) ? receipt : digestOf((await readChainFile(receipt)).at(-1) ?? '');
      const response = await getFromService(`/admin/usage?receipt=${digest}`, adminHeaders());
      const text = await response.text();
      const body = parseJson(text);
      const places = isJsonObject(body) ? [body['verify'], body['gate']] : [];
      if (response.status !== 200 || places.includes(undefined))
        throw adminRefusal({ status: response.status, text, body });
      process.stdout.write(`${digest}\n  /verify: ${usedOf(places[0])}\n  the gate: ${usedOf(places[1])}\n`);
    });
}

function usedOf(usage: JsonValue | undefined): string {
  if (!isJsonObject(usage)) return 'not counted, since replay protection is off';
  return `${show(usage['calls'])} calls, ${show(usage['total_cost_usd'])} US dollars`;
}
