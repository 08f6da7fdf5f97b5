import type { Command } from 'commander';
import { generateKey } from '../../issue/signing-key.js';
import { CommandError } from '../command-error.js';
import { requireFree, writeResult } from '../files.js';
import { encryptKey, readPassphraseFile } from '../key-file.js';

interface KeygenOptions {
  readonly out: string;
  readonly force?: true;
  readonly passphraseFile?: string;
}

// Whoever has the file can guess for ever, so the passphrase itself must be hard to guess.
const MIN_PASSPHRASE = 20;

export const help = `
Examples:
  npx drs-verify keygen -o alice.key            writes alice.key and alice.pub
  did=$(npx drs-verify keygen -o bot.key)
  npx drs-verify keygen -o bot.key --passphrase-file bot.passphrase`;

export function define(command: Command): void {
  command
    .description(
      'Makes an Ed25519 key: the private key in the file you name (a JWK, readable by you alone), the public key beside it with the ending .pub. Prints the DID.',
    )
    .requiredOption('-o, --out <file>', 'where to write the private key')
    .option('--force', 'replace files that exist')
    .option(
      '--passphrase-file <file>',
      `encrypt the private key (with Argon2id, by libsodium) with the passphrase in this file, of at least ${MIN_PASSPHRASE} characters`,
    )
    .action(async ({ out, force, passphraseFile }: KeygenOptions) => {
      const publicFile = `${out.replace(/\.key$/, '')}.pub`;
      for (const file of [out, publicFile]) requireFree(file, { force });
      if (out.endsWith('.pub'))
        throw new CommandError(
          `${out} would be a private key with the ending of a public one`,
          `name it ${out.replace(/pub$/, 'key')}: the public key gets the ending .pub`,
        );
      if (out === '-') throw new CommandError('a private key is never printed', 'name a file with -o');
      const key = generateKey();
      let privateText = `${JSON.stringify(key.toJwk(), null, 2)}\n`;
      if (passphraseFile !== undefined) {
        const passphrase = await readPassphraseFile(passphraseFile);
        if (passphrase.length < MIN_PASSPHRASE)
          throw new CommandError(
            `the passphrase in ${passphraseFile} has ${passphrase.length} characters, expected at least ${MIN_PASSPHRASE}`,
            'take six random words, or `openssl rand -base64 24`',
          );
        privateText = encryptKey(key, passphrase);
      }
      const note = ' (private: keep it to yourself)';
      await writeResult(out, privateText, { force, mode: 0o600, note });
      const publicText = `${JSON.stringify(key.toPublicJwk(), null, 2)}\n`;
      const publicNote = ' (public: give it to whoever delegates to you)';
      await writeResult(publicFile, publicText, { force, note: publicNote });
      process.stdout.write(`${key.did}\n`);
    });
}
