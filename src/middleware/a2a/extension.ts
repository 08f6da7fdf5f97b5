import { A2A_COMMAND } from '../../gate/a2a.js';
import { BUNDLE_HEADER } from '../../gate/carriers.js';
import { checkedOptions, text, type GivenOptions, type Table } from '../../protocol/options.js';
import { httpUrl } from '../options.js';

const OPTIONS = {
  /** The name that calls must be signed for, as in the options of `drsA2a`. */
  serverIdentity: {
    kind: text('the did:key or URL that calls are signed for', (name) => !['', 'any'].includes(name)),
    required: true,
  },
  /** The http or https URL at which a delegation can be asked for. */
  askAt: { kind: httpUrl },
} satisfies Table;

/** What {@link drsExtension} says about an agent. */
export interface DrsExtensionOptions extends GivenOptions<typeof OPTIONS> {}

/** An entry of `capabilities.extensions` of an agent card. */
export interface DrsExtension {
  readonly uri: string;
  readonly description: string;
  readonly required: true;
  readonly params: {
    /** The command is this and the method. */
    readonly commandPrefix: string;
    /** `tool_server` of the invocations. */
    readonly toolServer: string;
    /** The header that carries the bundle. */
    readonly header: string;
    readonly askAt?: string;
  };
}

/** The name of the extension. No document is there. */
export const DRS_EXTENSION = 'https://drs.okeyamy.xyz/a2a/delegation/v1';

/**
 * Makes the entry of an agent card which says that calls need a delegation: for which commands and which server, and
 * where to ask for it.
 *
 * @throws TypeError if an option is unknown, if `serverIdentity` is not a name, or `askAt` not a URL
 * @example
 * const extensions = [drsExtension({ serverIdentity, askAt: 'https://agent.example/delegations' })];
 * const card = { ...rest, capabilities: { streaming: true, extensions } };
 */
export function drsExtension(options: DrsExtensionOptions): DrsExtension {
  const { serverIdentity, askAt } = checkedOptions(options, OPTIONS);
  return {
    uri: DRS_EXTENSION,
    description:
      'Each call must carry a delegation (DRS 4.0) of a person or organization that this agent trusts, and an invocation of this very call.',
    required: true,
    params: {
      commandPrefix: `${A2A_COMMAND}/`,
      toolServer: serverIdentity,
      header: BUNDLE_HEADER,
      ...(askAt === undefined ? {} : { askAt: String(askAt) }),
    },
  };
}
