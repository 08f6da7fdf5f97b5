import type { Command } from 'commander';
import { digestOf } from '../../protocol/jwt.js';
import { isJsonObject, type JsonValue } from '../../protocol/json.js';
import { show } from '../../verify/codes.js';
import { readChainFile } from '../files.js';
import { EXIT } from '../command-error.js';
import { askService, unexpectedAnswer } from '../service.js';

const DIGEST = /^sha256:[\da-f]{64}$/;

export const help = `
Exit code: 0 shown; 1 refused by the service; 2 usage or no answer from the service.

Examples:
  DRS_ADMIN_TOKEN=… npx drs-verify usage root.jwt
  DRS_ADMIN_TOKEN=… npx drs-verify usage sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`;

export function define(command: Command): void {
  command
    .description(
      'Shows how many calls the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) has allowed under a receipt with max_calls or max_total_cost_usd, and what they cost. Needs DRS_ADMIN_TOKEN, with the value that the service has, or DRS_ADMIN_TOKEN_FILE, a file with it. If the service has ADMIN_ON_METRICS_ADDR=1, set DRS_ADMIN_URL to that address, such as http://127.0.0.1:9464.',
    )
    .argument('<receipt>', 'a file with the receipt, of a chain the last one; or its digest, sha256:…')
    .action(async (receipt: string) => {
      const digest = DIGEST.test(receipt) ? receipt : digestOf((await readChainFile(receipt)).at(-1) ?? '');
      const answer = await askService(`/admin/usage?receipt=${digest}`);
      const places = isJsonObject(answer.body) ? [answer.body['verify'], answer.body['gate']] : [];
      if (answer.status !== 200 || places.includes(undefined)) throw unexpectedAnswer(answer, EXIT.no);
      process.stdout.write(`${digest}\n  /verify: ${usedOf(places[0])}\n  the gate: ${usedOf(places[1])}\n`);
    });
}

function usedOf(usage: JsonValue | undefined): string {
  if (!isJsonObject(usage)) return 'not counted, since replay protection is off';
  return `${show(usage['calls'])} calls, ${show(usage['total_cost_usd'])} US dollars`;
}
