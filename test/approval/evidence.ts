import { pino } from 'pino';
import { challengeOf, statementOf, type Call } from '../../src/approval/statement.js';
import type { ApprovalEvent } from '../../src/approval/events.js';
import type { LineFile } from '../../src/log/line-file.js';
import { verdictLogsOf, type VerdictLogs } from '../../src/service/observe/logs/verdict-logs.js';
import type { Passkey, Said } from './passkey.js';

export const HANDLE = 'AAAAAAAAAAAAAAAAAAAAAA';
/** When it was asked. */
export const ASKED_AT = 1_700_000_000;

export type YesEvent = Extract<ApprovalEvent, { kind: 'approved' }>;

/** A yes to a call, or to what a forger has signed in its place. */
export function yesTo(
  call: Call,
  passkey: Passkey,
  said: Said & { readonly signed?: Uint8Array } = {},
): YesEvent {
  const { signed, ...others } = said;
  const statement = statementOf(call, ASKED_AT, HANDLE) as Uint8Array;
  const assertion = passkey.assert(challengeOf(signed ?? statement), { counter: 7, ...others });
  return {
    ...{ kind: 'approved', handle: HANDLE, askedAt: ASKED_AT },
    ...{ root: call.root, agent: call.agent, command: call.command },
    statement: Buffer.from(statement).toString(),
    ...{ approver: passkey.approver, assertion, counter: 7, missing: 0 },
  };
}

/** The line that a decision log has of an event. */
export const lineOf = (event: ApprovalEvent, logStatements = true): string =>
  lineBy((logs) => logs.recordApproval(event), logStatements);

/** The line of a decision log that somebody writes. */
export function lineBy(write: (logs: VerdictLogs) => void, logStatements = true): string {
  const lines: string[] = [];
  const file = { write: (line: string) => void lines.push(line) } as unknown as LineFile;
  write(
    verdictLogsOf(
      { logRefusals: 'off', logStatements, decisionLogBundles: false },
      pino({ enabled: false }),
      file,
      () => 'alice',
    ),
  );
  const [line] = lines;
  if (line === undefined || lines.length > 1) throw new Error(`${lines.length} lines`);
  return line;
}
