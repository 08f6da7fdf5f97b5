import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import type { Command } from 'commander';
import { readText } from '../files.js';

export const help = `
A fresh bundle is a live credential: the address has a secret part, and only programs that know it get the bundle.
To show the bundle to somebody, copy it from the page: it leaves out the signature, so nobody can make the call with it.

Examples:
  npx drs-verify inspect
  npx drs-verify inspect bundle.json
  tail -n 1 decisions.jsonl | npx drs-verify inspect --no-open -`;

export function define(command: Command): void {
  command
    .description(
      'Serves the inspector on a free port of this machine, opens the browser, and runs until it is ended (Ctrl-C).\nThe page verifies by itself, with libsodium, and sends nothing anywhere.',
    )
    .argument(
      '[bundle_file]',
      'a bundle, an X-DRS-Bundle header, receipts, a request or a line of a log; - for standard input',
    )
    .option('--no-open', 'print the address, and open no browser')
    .action(async (file: string | undefined, { open }: { readonly open: boolean }) => {
      const given = file === undefined ? null : await readText(file, 'a bundle');
      const url = await serveInspector(given, open);
      process.stdout.write(`${url}\n`);
      if (given !== null)
        process.stderr.write(
          'Keep this address to yourself: it gives the bundle with its signature. To show it to somebody, copy it from the page, "Take it with you".\n',
        );
    });
}

/**
 * The page of the inspector. `npm run build:web` makes it.
 *
 * @param given what it opens with: a bundle, or anything that it recognises
 */
export function inspectorPage(given: string | null = null): string {
  const page = readFileSync(createRequire(import.meta.url).resolve('#inspector'), 'utf8');
  // JSON has no `<` outside of strings, and there this is the same character: nothing ends the element.
  const data = JSON.stringify(given).replaceAll('<', '\\u003c');
  return page.replace(
    /(<script type="application\/json" id="given">)[^<]*/,
    (_, start: string) => start + data,
  );
}

/** What a server says of the page besides what the page says of itself: nobody puts it into a frame, or keeps it. */
const HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': "frame-ancestors 'none'",
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
} as const;

/** How each system opens an address. No shell reads it. */
const OPENERS: Partial<Record<NodeJS.Platform, readonly [program: string, ...args: string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/**
 * Serves the inspector to this machine, on a free port. The server keeps the process alive.
 *
 * @param given what the page opens with
 * @param opens whether to open a browser, too
 * @returns the address
 */
async function serveInspector(given: string | null, opens: boolean): Promise<string> {
  // Other users of this machine reach the port. So that they do not get what was given, its page has a secret path. The
  // page then calls itself `/`, which is empty: what people copy from the address bar has no secret.
  const secret = given === null ? '' : `${randomBytes(16).toString('base64url')}/`;
  const pages = new Map([
    ['/', Buffer.from(inspectorPage())],
    [`/${secret}`, Buffer.from(inspectorPage(given))],
  ]);
  const server = createServer((request, response) => {
    // Web pages reach the port by a name that leads here.
    const page = request.headers.host === host ? pages.get(request.url ?? '') : undefined;
    if (page === undefined || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(404).end();
      return;
    }
    response
      .writeHead(200, { ...HEADERS, 'Content-Length': page.length })
      .end(request.method === 'HEAD' ? undefined : page);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const url = `http://${host}/${secret}`;
  if (!opens) return url;
  const [program, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', () =>
    process.stderr.write(`${program} opens no browser here: open the address yourself\n`),
  );
  child.unref();
  return url;
}
