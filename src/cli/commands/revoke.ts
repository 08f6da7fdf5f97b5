import type { Command } from 'commander';
import { isJsonObject } from '../../protocol/json.js';
import { digestOf, parseCompactJwt } from '../../protocol/jwt.js';
import { membersOf, readRevocationRequest } from '../../revocation/index.js';
import { readChainFile } from '../files.js';
import { CommandError, EXIT } from '../command-error.js';
import { parseIndex } from '../options.js';
import { askService, unexpectedAnswer } from '../service.js';

interface Options {
  readonly index?: number;
  readonly receipt?: string;
  readonly did?: string;
  readonly root?: string;
  readonly jti?: string;
  readonly issuer?: string;
  readonly reason?: string;
}

export const help = `
Exit code: 0 recorded; 1 refused by the service; 2 usage or no answer from the service.

Examples:
  DRS_ADMIN_TOKEN=… npx drs-verify revoke --receipt root.jwt
  DRS_ADMIN_TOKEN=… npx drs-verify revoke --did did:key:z6Mk… --reason 'laptop stolen'
  DRS_ADMIN_TOKEN=… npx drs-verify revoke --jti dr:7a1f… --issuer did:key:z6Mk…
  DRS_ADMIN_TOKEN_FILE=/run/secrets/token DRS_ADMIN_URL=http://127.0.0.1:9464 npx drs-verify revoke --index 52014`;

export function define(command: Command): void {
  command
    .description(
      'Has the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) refuse, from now on, every receipt with this status list index (see --index and --root), or every chain through this receipt, or every chain in which this DID issues or receives. Needs DRS_ADMIN_TOKEN, with the value that the service has, or DRS_ADMIN_TOKEN_FILE, a file with it. If the service has ADMIN_ON_METRICS_ADDR=1, set DRS_ADMIN_URL to that address, such as http://127.0.0.1:9464. There is no undo.',
    )
    .option('--index <index>', "every receipt with this index in the operator's status list", parseIndex)
    .option(
      '--root <did>',
      'with --index: instead every receipt under this root with this index, in whichever list',
    )
    .option('--receipt <file>', 'this receipt: a file with it, or its digest, sha256:…')
    .option('--did <did>', 'this key: every chain in which it issues or receives')
    .option('--jti <jti>', 'the receipts with this jti by --issuer')
    .option('--issuer <did>', 'with --jti: who issued them')
    .option('--reason <text>', 'why, for the log and the list of the service: up to 200 characters')
    .action(async ({ index, receipt, did, root, jti, issuer: iss, reason }: Options) => {
      const named = [index, receipt, did, jti].filter((value) => value !== undefined);
      if (named.length !== 1)
        throw new CommandError(
          `${named.length === 0 ? 'nothing is' : 'several things are'} named, expected one`,
          'give --index, --receipt, --did or --jti',
        );
      const of = receipt === undefined ? { status_list_index: index, did, jti } : await readReceipt(receipt);
      const json = JSON.stringify({ ...of, root, iss, reason });
      const asked = readRevocationRequest(JSON.parse(json));
      if (typeof asked === 'string')
        throw new CommandError(asked, 'of a key, give the DID that is "kid" in its .pub file');
      const answer = await askService('/admin/revoke', json);
      const isRevoked = isJsonObject(answer.body) && answer.body['revoked'] === true;
      if (answer.status !== 200 || !isRevoked) throw unexpectedAnswer(answer, EXIT.no);
      const words = Object.entries(membersOf(asked.target)).map(
        ([member, value]) => `${member.replaceAll('_', ' ')} ${value}`,
      );
      process.stdout.write(`revoked: ${words.join(', ')}\n`);
      if (typeof asked.target === 'number')
        process.stderr.write(
          "note: every receipt with this index in the operator's list is revoked, whoever issued it; --receipt ends one alone\n",
        );
    });
}

/** The entry of a receipt goes when the receipt has expired, if the file says when. */
async function readReceipt(file: string) {
  if (file.startsWith('sha256:')) return { receipt: file };
  const [jwt = '', ...others] = await readChainFile(file);
  if (others.length > 0)
    throw new CommandError(
      `${file} has ${1 + others.length} receipts, expected the one to revoke`,
      `give its digest. From the root on they are ${[jwt, ...others].map(digestOf).join(', ')}`,
    );
  const parts = parseCompactJwt(jwt);
  if (parts.defect !== undefined)
    throw new CommandError(`${file} holds no receipt: ${parts.defect}`, 'check the file');
  const { exp } = parts.payload;
  return { receipt: digestOf(jwt), exp: typeof exp === 'number' ? exp : undefined };
}
