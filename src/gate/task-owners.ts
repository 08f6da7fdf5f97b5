import { sha256Hex } from '#platform';
import { gateFailure, type GateFailure } from './codes.js';
import { isGated } from './mcp-methods.js';

/** So many tasks of each principal are remembered, and of all; the oldest is forgotten first. */
const MAX_TASKS = 10_000;
const MAX_ALL = 100_000;

/**
 * Who started which task, as far as this process has seen the answers that started them. A task that it has known, and
 * forgotten, is nobody's: forgetting must not give it to others.
 */
export class TaskOwners {
  /** The root principal by the key of the task, oldest first. */
  readonly #owners = new Map<string, string>();
  /** The keys of each principal's tasks, oldest first. */
  readonly #tasks = new Map<string, Set<string>>();
  /** Bits of what was forgotten; in time more than that, never less. */
  #forgotten: Uint8Array | null = null;

  /** Remembers the task that an answer to a tool call started, if it did. */
  record(result: unknown, principal: string): void {
    const id = startedBy(result);
    // The first who gets an id keeps it: a server that gives it away twice must not take it from them.
    const key = id === null ? '' : keyOf(id);
    if (id === null || this.#owners.has(key) || this.#hasForgotten(key)) return;
    const own = this.#tasks.get(principal) ?? new Set();
    this.#owners.set(key, principal);
    this.#tasks.set(principal, own.add(key));
    const [oldest] = own.size > MAX_TASKS ? own : this.#owners.keys();
    if (own.size > MAX_TASKS || this.#owners.size > MAX_ALL) this.#forget(oldest as string);
  }

  #forget(key: string): void {
    const principal = this.#owners.get(key) as string;
    const own = this.#tasks.get(principal);
    this.#owners.delete(key);
    if (own?.delete(key) === true && own.size === 0) this.#tasks.delete(principal);
    const bits = (this.#forgotten ??= new Uint8Array(2 ** 21));
    bits[bitOf(key) >> 3] = (bits[bitOf(key) >> 3] as number) | (1 << (bitOf(key) & 7));
  }

  #hasForgotten(key: string): boolean {
    const bits = this.#forgotten;
    return bits !== null && ((bits[bitOf(key) >> 3] as number) & (1 << (bitOf(key) & 7))) !== 0;
  }

  /**
   * Why a principal may not send a message: it names a task that another one started. `null` if it may.
   *
   * @param principal `null` if there is no bundle
   */
  findFailure(
    { method, params }: { readonly method?: unknown; readonly params?: unknown },
    principal: string | null,
  ): GateFailure | null {
    const id =
      typeof params === 'object' && params !== null && 'taskId' in params ? params.taskId : undefined;
    if (typeof method !== 'string' || !isGated(method) || typeof id !== 'string') return null;
    const owner = this.#owners.get(keyOf(id));
    if (owner === undefined ? !this.#hasForgotten(keyOf(id)) : owner === principal) return null;
    const found = owner === undefined ? 'this process no longer knows whose task it is' : OTHERS;
    return gateFailure('TASK_MISMATCH', 'mcp', found, {
      verdict: principal === null ? null : { valid: true },
    });
  }
}

/** The id of the task in an answer: in `result.task` (2025-11-25), or in the result itself (later extension). */
function startedBy(result: unknown): string | null {
  if (typeof result !== 'object' || result === null) return null;
  const { task, resultType, taskId } = result as Readonly<Record<string, unknown>>;
  const id =
    typeof task === 'object' && task !== null && 'taskId' in task
      ? task.taskId
      : resultType === 'task'
        ? taskId
        : null;
  return typeof id === 'string' ? id : null;
}

const OTHERS = 'the task was started for another principal';
/** Far longer than any server makes an id. Of a longer one, its digest is remembered. */
const MAX_ID = 256;

const keyOf = (id: string) => (id.length <= MAX_ID ? id : `sha256:${sha256Hex(id)}`);

/** The bit of a key among 2^24. */
const bitOf = (key: string) => parseInt(sha256Hex(key).slice(0, 6), 16);

/** The failure of a request that has the id of a call whose answer is due. */
export function idInUse(id: string | number | null): GateFailure {
  const reason = `the request id ${JSON.stringify(id)} is in use: the answers could not be told apart`;
  return gateFailure('INVALID_JSONRPC', 'mcp', reason, {
    suggestion: 'Give each request of a connection an id of its own.',
  });
}
