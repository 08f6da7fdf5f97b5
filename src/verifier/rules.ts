import {
  count,
  flag,
  oneOf,
  text,
  type FilledOptions,
  type Reading,
  type Table,
} from '../protocol/options.js';
import { readGivenRoots, roots } from '../trust/given-roots.js';
import { readGivenTools, tools, toolsOf } from '../trust/read-tool.js';
import { CLOCKS, type Root, type Roots, type Rules } from '../verify/parts.js';
import type { Tool } from '../verify/tools.js';

/** The options that each verifier has, with native code or without. */
export const RULE_OPTIONS = {
  /** Maximum number of delegation receipts in a bundle. With a higher value, one request can cost more signatures. */
  maxChainDepth: { kind: count(1, 1024), default: 16 },
  /** Seconds by which the clock of whoever issues receipts, invocations or status lists may be ahead. */
  clockSkewSecs: { kind: count(0, 86_400, 'seconds'), default: CLOCKS.clockSkewSecs },
  /** Seconds for which a receipt can be used after its `exp`. */
  expiryGraceSecs: { kind: count(0, 3600, 'seconds'), default: CLOCKS.expiryGraceSecs },
  /**
   * Accept only invocations with this `tool_server`. If unset or `any`, calls for other servers are valid here too. The
   * gate of the service refuses calls if it is unset.
   */
  serverIdentity: { kind: text('a text, or `any`') },
  /**
   * Accept only these root principals: DIDs, or objects like the entries of `trustedRootsFile`. If neither is set, anyone
   * can be a root: the caller must check `root_principal`.
   */
  trustedRoots: { kind: roots },
  /** What tools do, as their operator knows: objects like the lines of `toolsFile`. Checked in place of what calls state. */
  tools: { kind: tools },
  /**
   * What becomes of a call that does not state what a level limits, and of which no tool says it: `refuse` (default), or `allow`:
   * such a limit then holds only for calls that state it.
   */
  unstatedArguments: { kind: oneOf('refuse', 'allow'), default: 'refuse' },
  /**
   * `true` (`REQUIRE_BINDING=1`): a call is invalid if it has no body, or a body that was not signed. For callers
   * that read only `valid`.
   */
  requireBinding: { kind: flag, default: false },
} satisfies Table;

type RuleSettings = FilledOptions<typeof RULE_OPTIONS>;

/** The roots that options name; `null` if they name none. */
export function givenRoots({ trustedRoots }: RuleSettings): ReadonlyMap<string, Root> | null {
  return trustedRoots === undefined ? null : checked(readGivenRoots(trustedRoots));
}

/** The tools that options describe; `null` if they describe none. */
export function givenTools({ tools }: RuleSettings): ReadonlyMap<string, Tool> | null {
  return tools === undefined ? null : checked(readGivenTools(tools));
}

/** What the kind of an option has accepted. */
function checked<T>(reading: Reading<T>): T {
  if ('problem' in reading) throw new TypeError(reading.problem);
  return reading.value;
}

/** What an operator decides, by options, and by roots and tools, which may come from files. */
export function rulesOf(
  settings: RuleSettings,
  trustedRoots: Roots | null,
  tools: Parameters<typeof toolsOf>[0] | null,
): Rules {
  const { maxChainDepth, clockSkewSecs, expiryGraceSecs, serverIdentity = 'any' } = settings;
  return {
    maxChainDepth,
    clockSkewSecs,
    expiryGraceSecs,
    serverIdentity: serverIdentity === 'any' ? null : serverIdentity,
    trustedRoots: trustedRoots && {
      get: (did) => {
        const root = trustedRoots.get(did);
        return root?.isRoot === false ? undefined : root;
      },
    },
    tools: tools && toolsOf(tools),
    allowsUnstated: settings.unstatedArguments === 'allow',
  };
}
