// `#call-scope` in package.json where there is no Node. Same names as call-scope-node.ts.

/** Knows nothing: web standards have no way to follow a call through its promises. */
export class CallScope<T> {
  run<R>(_store: T, handler: () => R): R {
    return handler();
  }

  getStore(): T | undefined {
    return undefined;
  }
}

export const followsCalls: boolean = false;

/** A channel without subscribers. */
export function channel(_name: string): {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
} {
  return { hasSubscribers: false, publish: () => undefined };
}
