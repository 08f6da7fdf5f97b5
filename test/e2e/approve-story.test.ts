import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Client as V2Client } from '@modelcontextprotocol/client';
import { StdioClientTransport as V2Transport } from '@modelcontextprotocol/client/stdio';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as V1Transport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDevice, register, type Device, type Person } from '../approve/device.js';
import { MAIN } from '../cli/drs.js';
import { newAgent, TOOL_SERVER } from '../relay/agent.js';
import { launchBrowser } from '../support/browser.js';
import { eventually } from '../support/eventually.js';
import { unusedPort } from '../support/ports.mjs';
import { needs } from '../support/programs.js';

// `npm run demo:approve` runs this file: its titles tell the story. Nothing in it is ours but `sign`, `guard` and the page: the clients
// are those of the MCP SDKs, the tool server is `server-filesystem`, the person has a Chromium with an authenticator.

const FILES = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-filesystem/dist/index.js');
const info = { name: 'host', version: '1.0.0' };

interface Host {
  callTool(params: { name: string; arguments: object }): Promise<unknown>;
  close(): Promise<void>;
}
type Server = ConstructorParameters<typeof V1Transport>[0];

type Connect = (server: Server) => Promise<Host>;
const HOSTS: readonly [readonly [string, Connect], ...(readonly [string, Connect])[]] = [
  [
    'SDK 1.x',
    async (server) => {
      const client = new V1Client(info);
      await client.connect(new V1Transport(server));
      return client as Host;
    },
  ],
  [
    'SDK 1.x, which opens links',
    async (server) => {
      const client = new V1Client(info, { capabilities: { elicitation: { url: {} } } });
      await client.connect(new V1Transport(server));
      return client as Host;
    },
  ],
  [
    'SDK 2.x',
    async (server) => {
      const client = new V2Client(info, { versionNegotiation: { mode: 'auto' } });
      await client.connect(new V2Transport(server as ConstructorParameters<typeof V2Transport>[0]));
      return client as Host;
    },
  ],
];

const [[, firstHost]] = HOSTS;
const agent = newAgent();
const at = (name: string) => agent.path(name);

describe('a person says yes to one call', { ...needs('chromium'), shuffle: false }, () => {
  let browser: Browser;
  let origin: string;
  let server: Server;
  let alice: Person;
  let bob: Person;

  /** What the operator says of the principal, who is asked before each file is written. */
  const trust = (needed: number, ...approvers: readonly string[]) => {
    const people =
      approvers.length === 0
        ? {}
        : { needed, approvers: approvers.map((line) => JSON.parse(line) as object) };
    const entry = { did: agent.principal.did, name: 'Alice', approve: { tools: ['write_file'] }, ...people };
    writeFileSync(at('roots.jsonl'), `${JSON.stringify(entry)}\n`);
  };

  beforeAll(async () => {
    mkdirSync(at('notes'));
    origin = `http://localhost:${await unusedPort()}`;
    trust(1);
    const chain = await agent.chain('chain.jwt', ['write_file', 'read_text_file']);
    const guard = [MAIN, 'guard', '--tool-server', TOOL_SERVER, '--', process.execPath, FILES, at('notes')];
    server = {
      command: process.execPath,
      args: [MAIN, ...agent.options(chain), '--', process.execPath, ...guard],
      env: {
        DRS_TRUSTED_ROOTS_FILE: at('roots.jsonl'),
        DRS_DECISION_LOG: at('decisions.jsonl'),
        DRS_APPROVALS_URL: origin,
      },
      stderr: 'ignore',
    };
    browser = await launchBrowser();
  });
  afterAll(() => browser.close());

  /** Runs one host after the other: each has a guard of its own, at the one port of the page. */
  async function withHost(
    connect: (server: Server) => Promise<Host>,
    use: (write: (text: string) => Promise<string>) => Promise<void>,
  ) {
    const host = await connect(server);
    /** What the agent is told of a call that writes a file. */
    const write = (content: string) =>
      host.callTool({ name: 'write_file', arguments: { path: at('notes/a.txt'), content } }).then(
        (result) => JSON.stringify(result),
        (error: unknown) => (error as Error).message,
      );
    try {
      await use(write);
    } finally {
      await host.close();
    }
  }
  const linkIn = (text: string) =>
    new RegExp(`${origin}/approve/[\\w-]{22}`).exec(text)?.[0] ?? `no link in: ${text}`;
  const written = () => (existsSync(at('notes/a.txt')) ? readFileSync(at('notes/a.txt'), 'utf8') : null);
  const headline = async (device: Device, expected: string) => {
    await eventually(async () => expect(await device.page.textContent('.answer h2')).toBe(expected));
  };
  const sayYes = async (device: Device, link: string) => {
    await device.page.goto(link);
    await headline(device, 'Do you say yes to this call?');
    await device.page.click('text=Yes, this call');
    await headline(device, 'You said yes');
  };

  it('without anybody who could say yes, the call is refused, and the refusal says which line is missing', async () => {
    await withHost(firstHost, async (write) => {
      expect(await write('early')).toMatch(/approvers .*TRUSTED_ROOTS_FILE/);
      // Registering is like sending a public key: nothing is stored here.
      alice = await register(await openDevice(browser), origin, 'Alice');
      bob = await register(await openDevice(browser, 'P-256'), origin, 'Bob');
    });
    trust(1, alice.line);
    expect(written()).toBeNull();
  });

  it.each(HOSTS)(
    '%s: a link, the page, no; another call, yes; it goes through once; then it asks again',
    async (name, connect) => {
      await withHost(connect, async (write) => {
        const no = linkIn(await write(`${name}: no`));
        await alice.page.goto(no);
        await headline(alice, 'Do you say yes to this call?');
        expect(await alice.page.textContent('.wish')).toContain(`${name}: no`);
        await alice.page.click('button:text-is("No")');
        await headline(alice, 'You said no');
        expect(await write(`${name}: no`)).toContain('somebody said no to this call');

        const refused = await write(`${name}: yes`);
        expect(refused).toContain('Alice');
        expect(linkIn(await write(`${name}: yes`))).toBe(linkIn(refused));
        await sayYes(alice, linkIn(refused));
        // Not another one.
        expect(linkIn(await write(`${name}: yes!`))).not.toBe(linkIn(refused));
        expect(written()).not.toBe(`${name}: yes`);
        await write(`${name}: yes`);
        expect(written()).toBe(`${name}: yes`);
        expect(linkIn(await write(`${name}: yes`))).not.toBe(linkIn(refused));
      });
    },
  );

  it('four eyes: two persons, each with a passkey of their own', async () => {
    trust(2, alice.line, bob.line);
    await withHost(firstHost, async (write) => {
      const link = linkIn(await write('both'));
      await sayYes(alice, link);
      expect(linkIn(await write('both'))).toBe(link);
      expect(written()).not.toBe('both');
      await sayYes(bob, link);
      await write('both');
      expect(written()).toBe('both');
    });
  });
});
