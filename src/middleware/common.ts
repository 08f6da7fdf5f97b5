// What every entry of the middleware exports.
export { openApprovals, type ApprovalsOptions } from '#approvals';
export { drsContext, findDrsContext, type DrsContext } from './context.js';
export { BUNDLE_HEADER_ROOM, type Delegation } from './delegation.js';
export {
  REFUSAL,
  TOOL_CALL,
  type EventOptions,
  type Outcome,
  type Refusal,
  type RefusalEvent,
  type RefusedCall,
  type ToolCallEvent,
} from './events.js';
export type { ApprovalRecord, Approvals, CallVerifier, ProtectionOptions, VerdictSource } from './options.js';
export { DrsRefusalError } from './refusal-error.js';
export type { YesProof } from '../approval/events.js';
export { BUNDLE_HEADER } from '../gate/carriers.js';
export { RPC_ERROR_CODE, type Explained, type GateFailure, type Protocol } from '../gate/codes.js';
export { type GateContext } from '../gate/context.js';
export { type ChainVerdict } from '../gate/decide.js';
export { type Denial, type Elicitation } from '../gate/request.js';
export {
  type GateResponse,
  type HttpRefusal,
  type RpcError,
  type RpcErrorData,
  type RpcQuestion,
  type RpcRefusal,
} from '../gate/response.js';
export * from '../usage/public.js';
export type { CountedLimits, LimitLeft, ReachedLimit } from '../verify/limits.js';
