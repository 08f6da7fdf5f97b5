// `#call-scope` in package.json: how the middleware follows a call into its handler.
export { AsyncLocalStorage as CallScope } from 'node:async_hooks';

/** Whether {@link CallScope} knows which call a handler serves. */
export const followsCalls: boolean = true;
