import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { CALL_ARGS, forge, garble, makeCall, makeChain, type Exchange } from './chains.js';

/** Kinds of traffic. The glossary of the report explains the first three; an attacker sends the others. */
export type Traffic = 'warm' | 'cold' | 'mixed' | 'forged' | 'malformed';

/**
 * Requests for a load generator, as files with one body a line. A generator sends them in turn, and starts again at the
 * end.
 */
export interface Workload {
  readonly traffic: Traffic;
  readonly depth: number;
  /**
   * Bodies. `answersFile` has the answer to each on the same line. An empty line, or no file, means that only `marker`
   * is known.
   */
  readonly bodiesFile: string;
  readonly answersFile: string;
  /** Other bodies: every n-th request takes one of these; `coldEvery` is n, or 0 for never. */
  readonly coldBodiesFile: string;
  readonly coldAnswersFile: string;
  readonly coldEvery: number;
  /** Where in the cold bodies the next run continues, so that it does not repeat what the last one sent. */
  readonly coldStart: number;
  /** A text that every answer must contain; `Name: value` stands for a header. */
  readonly marker: string;
  /** The path, if it is not `/verify`. In each line, the text before a tab is then the header `X-DRS-Bundle`. */
  readonly path?: string;
  /** The mean body size of a request. */
  readonly bodyBytes: number;
}

/** The cache size of services that get cold traffic. It is small, so that few chains are enough to always miss it. */
export const COLD_CACHE_BYTES = 256 * 1024;

const WARM_CHAINS = 8;
const WARM_CALLS_PER_CHAIN = 32;
// A cached receipt takes some 5 KB as the cache counts, so this is many times what fits. The first ones fill the cache,
// and stay until they are sent for the second time, so they must be few. After each run, the service's metrics are
// checked: hardly any receipt may have been found in the cache.
const COLD_RECEIPTS = 10_000;

/** Makes workloads and keeps them for the length of a run. */
export class Workloads {
  /** The directory for the files. */
  readonly directory: string;
  readonly #warm = new Map<number, readonly Exchange[]>();
  readonly #cold = new Map<number, readonly Exchange[]>();
  readonly #written = new Map<string, Omit<Workload, 'coldStart'>>();
  readonly #coldStarts = new Map<string, number>();

  /** @param directory the directory for the files; the caller removes it */
  constructor(directory: string) {
    this.directory = directory;
  }

  /** Calls under a few chains. */
  warm(depth: number): readonly Exchange[] {
    return this.#memo(this.#warm, depth, () =>
      Array.from({ length: WARM_CHAINS }, () => makeChain(depth)).flatMap((chain) =>
        Array.from({ length: WARM_CALLS_PER_CHAIN }, () => makeCall(chain)),
      ),
    );
  }

  /** One call under each of many chains. */
  cold(depth: number): readonly Exchange[] {
    return this.#memo(this.#cold, depth, () =>
      Array.from({ length: Math.ceil(COLD_RECEIPTS / depth) }, () => makeCall(makeChain(depth))),
    );
  }

  /** The files of a workload. */
  files(traffic: Traffic, depth: number): Workload {
    const workload = this.#memo(this.#written, `${traffic}-${depth}`, () => this.#write(traffic, depth));
    return { ...workload, coldStart: this.#coldStarts.get(workload.coldBodiesFile) ?? 0 };
  }

  /** Notes that requests of a workload were sent. */
  advance({ coldBodiesFile, coldStart, coldEvery }: Workload, requests: number): void {
    if (coldEvery === 0) return;
    this.#coldStarts.set(coldBodiesFile, coldStart + Math.ceil(requests / coldEvery));
  }

  #write(traffic: Traffic, depth: number): Omit<Workload, 'coldStart'> {
    const [bodiesFile, answersFile] = this.#exchanges(`warm-${depth}`, this.warm(depth));
    const warm = this.warm(depth);
    const plain = {
      bodyBytes: Math.round(warm.reduce((sum, { body }) => sum + body.length, 0) / warm.length),
      traffic,
      depth,
      bodiesFile,
      answersFile,
      coldBodiesFile: '',
      coldAnswersFile: '',
      coldEvery: 0,
    };
    const marker = `"chain_depth":${depth},`;
    switch (traffic) {
      case 'warm':
        return { ...plain, marker };
      case 'cold':
      case 'mixed': {
        const [coldBodiesFile, coldAnswersFile] = this.#exchanges(`cold-${depth}`, this.cold(depth));
        return { ...plain, coldBodiesFile, coldAnswersFile, coldEvery: traffic === 'cold' ? 1 : 10, marker };
      }
      case 'forged':
      case 'malformed': {
        const [spoil, code] =
          traffic === 'forged' ? [forge, 'INVALID_INVOCATION_SIGNATURE'] : [garble, 'MALFORMED_INVOCATION'];
        const spoilt = this.warm(depth).map((exchange) => ({ body: spoil(exchange), answer: '' }));
        const [bodies, answers] = this.#exchanges(`${traffic}-${depth}`, spoilt);
        return { ...plain, bodiesFile: bodies, answersFile: answers, marker: `"code":"${code}"` };
      }
    }
  }

  #exchanges(name: string, exchanges: readonly Exchange[]): [bodies: string, answers: string] {
    const files: [string, string] = [
      path.join(this.directory, `${name}.bodies`),
      path.join(this.directory, `${name}.answers`),
    ];
    writeFileSync(files[0], exchanges.map(({ body }) => `${body}\n`).join(''));
    writeFileSync(files[1], exchanges.map(({ answer }) => `${answer}\n`).join(''));
    return files;
  }

  #memo<Key, Value>(kept: Map<Key, Value>, key: Key, make: () => Value): Value {
    const found = kept.get(key);
    if (found !== undefined) return found;
    const made = make();
    kept.set(key, made);
    return made;
  }
}

/** One call, in the form for each endpoint. */
export interface GateCall {
  /** For `/verify`: the bundle, and the arguments to which it must be bound. */
  readonly verify: string;
  /** For a gate: the bundle in base64url, and the MCP message. */
  readonly bundle: string;
  readonly message: string;
}

const { tool, ...args } = CALL_ARGS;
const params = { name: tool, arguments: args };
const MESSAGE = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params });

/** The warm calls of a depth. */
export function gateCalls(workloads: Workloads, depth: number): GateCall[] {
  return workloads.warm(depth).map(({ body }) => ({
    verify: JSON.stringify({ ...(JSON.parse(body) as object), body: CALL_ARGS }),
    bundle: Buffer.from(body).toString('base64url'),
    message: MESSAGE,
  }));
}

/** The same calls as files: for `/verify`, and for the gate. */
export function gateWorkloads(
  workloads: Workloads,
  depth: number,
): Readonly<Record<'verify' | 'gate', Workload>> {
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
  const bodies = calls.map(({ verify }) => verify);
  const gated = calls.map(({ bundle, message }) => `${bundle}\t${message}`);
  return {
    verify: write('verify', bodies, `"chain_depth":${depth},`, '/verify'),
    gate: write('gate', gated, `X-DRS-Chain-Depth: ${depth}`, '/gate/mcp'),
  };
}
