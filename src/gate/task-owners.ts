import { gateFailure, type GateFailure } from './codes.js';
import { isGated } from './mcp-methods.js';

/** So many tasks are remembered; the oldest is forgotten first. */
const MAX_TASKS = 10_000;

/** Who started which task, as far as this process has seen the answers that started them. */
export class TaskOwners {
  /** The root principal by the id of the task, oldest first. */
  readonly #owners = new Map<string, string>();

  /** Remembers the task that an answer to a tool call started, if it did. */
  record(result: unknown, principal: string): void {
    const id = startedBy(result);
    // The first who gets an id keeps it: a server that gives it away twice must not take it from them.
    if (id === null || this.#owners.has(id)) return;
    this.#owners.set(id, principal);
    if (this.#owners.size <= MAX_TASKS) return;
    const [oldest] = this.#owners.keys();
    this.#owners.delete(oldest as string);
  }

  /**
   * Why a principal may not send a message: it names a task that another one started. `null` if it may.
   *
   * @param principal `null` if there is no bundle
   */
  findFault(
    { method, params }: { readonly method?: unknown; readonly params?: unknown },
    principal: string | null,
  ): GateFailure | null {
    const id =
      typeof params === 'object' && params !== null && 'taskId' in params ? params.taskId : undefined;
    if (typeof method !== 'string' || !isGated(method) || typeof id !== 'string') return null;
    const owner = this.#owners.get(id);
    if (owner === undefined || owner === principal) return null;
    return gateFailure('TASK_MISMATCH', 'mcp', 'the task was started for another principal', {
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
  return typeof id === 'string' && id.length <= MAX_ID ? id : null;
}

/** Far longer than any server makes an id: what is remembered stays small. */
const MAX_ID = 256;

/** The failure of a request that has the id of a call whose answer is due. */
export function idInUse(id: string | number): GateFailure {
  const reason = `the request id ${JSON.stringify(id)} is in use: the answers could not be told apart`;
  return gateFailure('INVALID_JSONRPC', 'mcp', reason, {
    suggestion: 'Give each request of a connection an id of its own.',
  });
}
