/** The options that decide whether several processes can share the work. */
interface Shared {
  readonly processes: number;
  readonly sharePort: boolean;
  readonly replayProtection?: 'memory' | 'redis' | undefined;
  readonly gateReplay: 'memory' | 'redis' | 'off';
  readonly revocationStore?: 'memory' | 'file' | 'redis' | undefined;
  readonly revocationStorePath?: string | undefined;
  readonly drsAdminToken?: string | undefined;
  readonly grpcPort?: number | undefined;
}

/** Finds options that keep state in a single process although several processes share the port. */
export function findUnshareable(options: Shared): string[] {
  const { processes, sharePort, replayProtection, gateReplay, drsAdminToken, grpcPort } = options;
  if (processes === 1 && !sharePort) return [];
  const several = processes > 1 ? `PROCESSES is ${processes}` : 'SHARE_PORT is set';
  const problems: string[] = [];
  const replay = (variable: string, instead: string) =>
    problems.push(
      `${variable} is "memory", and ${several}: each process would have a record of its own, and an invocation ` +
        `would pass once in each; set ${variable} to redis (and REDIS_URL)${instead}`,
    );
  if (replayProtection === 'memory') replay('REPLAY_PROTECTION', '');
  if (gateReplay === 'memory') replay('GATE_REPLAY', ', or to off if calls of the gate may be repeated');
  const isFile = options.revocationStore === 'file' || options.revocationStorePath !== undefined;
  if (isFile && options.revocationStore !== 'redis')
    problems.push(
      `REVOCATION_STORE_PATH is set, and ${several}: only one process can have the file; ` +
        'move it to Redis (`drs-verify revocations import <file>`), then set REVOCATION_STORE to redis and unset the path',
    );
  // Without the admin endpoint nothing is ever revoked locally, and an empty store is the same in every process.
  else if (options.revocationStore !== 'redis' && drsAdminToken !== undefined)
    problems.push(
      `REVOCATION_STORE is "memory", and ${several}: a revocation would apply only in the process that received it; ` +
        'set REVOCATION_STORE to redis, or unset DRS_ADMIN_TOKEN and revoke by status list',
    );
  if (grpcPort !== undefined)
    problems.push(
      `GRPC_PORT is set, and ${several}: only one process can listen on it, since grpc-js does not share a port; ` +
        'unset GRPC_PORT, or run single processes on ports of their own behind a balancer',
    );
  return problems;
}
