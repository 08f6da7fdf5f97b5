import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { CALL_ARGS } from './chains.js';
import type { Workload, Workloads } from './workload.js';

/** One call, in the form for each endpoint. */
export interface GateCall {
  /** For `/verify`: the bundle, and the arguments to which it must be bound. */
  readonly verify: string;
  /** For a gate: the bundle in base64url, and the MCP message. */
  readonly bundle: string;
  readonly message: string;
}

const { tool, ...args } = CALL_ARGS;
const MESSAGE = JSON.stringify({
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: tool, arguments: args },
});

/** The warm calls of a depth. */
export function gateCalls(workloads: Workloads, depth: number): GateCall[] {
  return workloads.warm(depth).map(({ body }) => ({
    verify: JSON.stringify({ ...(JSON.parse(body) as object), body: CALL_ARGS }),
    bundle: Buffer.from(body).toString('base64url'),
    message: MESSAGE,
  }));
}

/** The same calls as files: for `/verify`, for the gate itself, and for a proxy in front of a tool. */
export function gateWorkloads(
  workloads: Workloads,
  depth: number,
): Readonly<Record<'verify' | 'gate' | 'proxy', Workload>> {
  const calls = gateCalls(workloads, depth);
  const write = (name: string, lines: readonly string[], marker: string, target: string): Workload => {
    const bodiesFile = path.join(workloads.directory, `gate-${name}-${depth}.bodies`);
    writeFileSync(bodiesFile, lines.map((line) => `${line}\n`).join(''));
    return {
      ...{ traffic: 'warm', depth, bodiesFile, answersFile: '', marker, path: target },
      ...{ coldBodiesFile: '', coldAnswersFile: '', coldEvery: 0, coldStart: 0 },
      bodyBytes: Math.round(lines.reduce((sum, { length }) => sum + length, 0) / lines.length),
    };
  };
  const gated = calls.map(({ bundle, message }) => `${bundle}\t${message}`);
  return {
    verify: write(
      'verify',
      calls.map((call) => call.verify),
      `"chain_depth":${depth},`,
      '/verify',
    ),
    gate: write('gate', gated, `X-DRS-Chain-Depth: ${depth}`, '/gate/mcp'),
    proxy: write('proxy', gated, '"valid":true', '/mcp'),
  };
}
