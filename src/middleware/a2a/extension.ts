import { A2A_COMMAND, BUNDLE_HEADER } from '../../gate/index.js';

/** What {@link drsExtension} says about an agent. */
export interface DrsExtensionOptions {
  /** The name that calls must be signed for, as in the options of `drsA2a`. */
  readonly serverIdentity: string;
  /** Where people ask for a delegation: a URL or an address. */
  readonly ask?: string;
}

/** An entry of `capabilities.extensions` of an agent card. */
export interface DrsExtension {
  readonly uri: string;
  readonly description: string;
  readonly required: true;
  readonly params: {
    /** The command above those of all methods. */
    readonly command: string;
    /** `tool_server` of the invocations. */
    readonly tool_server: string;
    /** The header that carries the bundle. */
    readonly header: string;
    readonly ask?: string;
  };
}

/** The name of the extension. No document is there. */
export const DRS_EXTENSION = 'https://drs.okeyamy.xyz/a2a/delegation/v1';

/**
 * Makes the entry of an agent card which says that calls need a delegation: for which commands and which server, and
 * where to ask for it.
 *
 * @throws TypeError if `serverIdentity` or `ask` is not a name
 * @example
 * const extensions = [drsExtension({ serverIdentity, ask: 'https://agent.example/delegations' })];
 * const card = { ...rest, capabilities: { streaming: true, extensions } };
 */
export function drsExtension({ serverIdentity, ask }: DrsExtensionOptions): DrsExtension {
  if (typeof serverIdentity !== 'string' || serverIdentity === '' || serverIdentity === 'any')
    throw new TypeError(
      `serverIdentity is ${JSON.stringify(serverIdentity)}, expected the did:key or URL that calls are signed for`,
    );
  if (ask !== undefined && (typeof ask !== 'string' || ask === ''))
    throw new TypeError(`ask is ${JSON.stringify(ask)}, expected a URL or an address`);
  return {
    uri: DRS_EXTENSION,
    description:
      'Each call must carry a delegation (DRS 4.0) of a person or organization that this agent trusts, and an invocation of this very call.',
    required: true,
    params: {
      command: A2A_COMMAND,
      tool_server: serverIdentity,
      header: BUNDLE_HEADER,
      ...(ask === undefined ? {} : { ask }),
    },
  };
}
