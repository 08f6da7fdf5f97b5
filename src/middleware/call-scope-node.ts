// `#call-scope` in package.json: how the middleware follows a call into its handler, and tells other code of the process
// about calls.
export { AsyncLocalStorage as CallScope } from 'node:async_hooks';
export { channel } from 'node:diagnostics_channel';

/** Whether {@link CallScope} knows which call a handler serves. */
export const followsCalls: boolean = true;
