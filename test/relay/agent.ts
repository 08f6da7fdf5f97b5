import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';
import { createConsent, generateKey, issueRootDelegation, type SigningKey } from '../../src/issue/index.js';
import type { IssuedPolicy } from '../../src/issue/index.js';
import { readChainFile } from '../../src/cli/files.js';
import type { Tools } from '../../src/verify/tools.js';
import { openDelegations, type SignCall } from '../../src/relay/sign.js';

export const TOOL_SERVER = 'https://tools.example';

/** An agent with its key and chains in files, which a principal has issued. */
export interface Agent {
  readonly folder: string;
  readonly key: SigningKey;
  readonly principal: SigningKey;
  readonly keyFile: string;
  path(name: string): string;
  /** Writes a chain that allows these tools, or methods, under `/mcp`; `[]`: all. */
  chain(name: string, tools: readonly string[], command?: string, more?: IssuedPolicy): Promise<string>;
  /** The options of `sign` for these chain files. */
  options(...chains: string[]): string[];
  /** @param tools what the operator of the server says; by default nobody knows */
  delegations(chains: readonly string[], tools?: Tools): Promise<SignCall>;
}

/** A new agent, whose folder is removed after the tests of the file. */
export function newAgent(): Agent {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-sign-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const [principal, key] = [generateKey(), generateKey()];
  const at = (name: string) => path.join(folder, name);
  const keyFile = at('agent.key');
  writeFileSync(keyFile, JSON.stringify(key.toJwk()), { mode: 0o600 });
  return {
    folder,
    key,
    principal,
    keyFile,
    path: at,
    async chain(name, tools, command = '/mcp', more = {}) {
      const receipt = await issueRootDelegation({
        key: principal,
        audience: key.did,
        command,
        policy: { ...(tools.length === 0 ? {} : { allowed_tools: [...tools] }), ...more },
        consent: createConsent({ text: 'Yes.', locale: 'en', method: 'explicit-ui-click' }),
      });
      writeFileSync(at(name), `${receipt}\n`);
      return at(name);
    },
    options: (...chains) => [
      ...['sign', '--key', keyFile, '--tool-server', TOOL_SERVER],
      ...chains.flatMap((file) => ['--chain', file]),
    ],
    delegations: (files, tools) =>
      openDelegations(key, files, readChainFile, TOOL_SERVER, () => Promise.resolve(tools ?? null)),
  };
}
