import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { toolCall } from '../gate/attacks.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { eventually } from '../support/eventually.js';
import { startOnPort } from '../support/ports.mjs';
import { startService } from '../support/service-in-process.js';

/** Who may say yes to calls under a principal. */
interface Entry {
  readonly needed?: number;
  readonly private?: boolean;
  /** As `/approve/register` shows them. */
  readonly lines: readonly string[];
}

/** A service whose gate asks persons, on a page that Chromium can open. */
export interface RunningGate {
  readonly origin: string;
  /** Writes the entries of principals, by their names, and waits until they count. */
  trust(entries: Readonly<Record<string, Entry>>): Promise<void>;
  /** Makes a call of `transfer`. @returns what the gate says, and the address at which somebody is asked */
  call(principal: string, args: object): Promise<{ readonly code: string; readonly url: string }>;
  close(): Promise<void>;
}

const CALL = { cmd: '/mcp/tools/call', tool_server: 'https://bank.example/mcp' };
const policy = { allowed_tools: ['transfer', 'balance'], max_cost_usd: 500 };

export async function startGate(principals: readonly string[]): Promise<RunningGate> {
  const chains = new Map(principals.map((name) => [name, liveChain(2, { cmd: '/mcp', policy })]));
  const chainOf = (name: string) => {
    const chain = chains.get(name);
    if (chain === undefined) throw new Error(`there is no principal ${name}`);
    return chain;
  };
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-approve-page-'));
  const file = path.join(folder, 'roots.jsonl');
  const write = (entries: Readonly<Record<string, Entry>>) => {
    const lines = principals.map((name) => {
      const { lines, ...more } = entries[name] ?? { lines: [] };
      const approvers = lines.map((line) => JSON.parse(line) as object);
      return JSON.stringify({
        ...{ did: chainOf(name).parties[0]?.did, name: `${name}@example.com`, approve: { tools: ['*'] } },
        ...(approvers.length > 0 && { approvers, ...more }),
      });
    });
    writeFileSync(`${file}.new`, lines.join('\n'));
    renameSync(`${file}.new`, file);
  };
  write({});
  const { service, origin } = await startOnPort(async (port) => {
    const origin = `http://localhost:${port}`;
    const env = { PORT: String(port), TRUSTED_ROOTS_FILE: file, APPROVALS_URL: origin };
    return { service: await startService(env), origin };
  });
  const call: RunningGate['call'] = async (principal, args) => {
    const signed = { tool: 'transfer', ...args };
    const bundle = encode(liveCall(chainOf(principal), signed, CALL));
    const answer = await fetch(`${service.url}/gate/mcp`, {
      method: 'POST',
      headers: { 'X-DRS-Bundle': bundle, 'content-type': 'application/json' },
      body: toolCall({ name: 'transfer', arguments: args }),
    });
    const { error } = (answer.status === 200 ? {} : await answer.json()) as {
      error?: { message: string; data: { code: string; approval?: { url: string } } };
    };
    return { code: error?.data.code ?? 'allow', url: error?.data.approval?.url ?? '' };
  };
  return {
    ...{ origin, call },
    trust: async (entries) => {
      write(entries);
      // The file is followed. Of a principal without persons, nobody is asked.
      const names = Object.keys(entries);
      await eventually(async () => {
        for (const name of names) {
          const { url } = await call(name, { estimated_cost_usd: 0 });
          if (url === '') throw new Error(`nobody is asked for ${name}`);
        }
      }, 500);
    },
    close: async () => {
      await service.stop();
      rmSync(folder, { recursive: true });
    },
  };
}
