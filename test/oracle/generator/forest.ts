import { writeJson, member, type Json, type JsonObject } from '../json.js';
import { allows, hasKnownMembersOfRightType } from '../policy.js';
import { didOf, KEYS } from './keys.js';
import type { Random } from './random.js';
import { parse, toJson, type Link } from './recipe.js';
import {
  extraValue,
  ODD,
  PATHS,
  POLICY,
  POLICY_MEMBERS,
  policyRow,
  TOOLS,
  UNKNOWN_MEMBERS,
} from './values.js';

/** The simulated time of a run. It is far from the real time, so that no verdict depends on the real time. */
export const NOW = 2_500_000_000;
export const STATUS_LIST_BITS = 256;

const CONSENT = `{"locale":"en","method":"explicit-ui-click","policy_hash":"sha256:${'0'.repeat(64)}","session_id":"s-1","timestamp":"2026-01-01T00:00:00Z"}`;
export const SERVERS = ['https://tools.example', 'https://other.example'];

/** A receipt in a forest of chains that share their receipts. */
interface Node {
  readonly link: Link;
  readonly parent: Node | undefined;
  /** The party that may issue the next receipt, or invoke. */
  readonly audience: number;
  readonly depth: number;
  /** The key of its root. */
  readonly root: number;
}

/** The name of a list of a root, in the worlds in which it has some. */
export const listName = (root: number, form: 'w3c' | 'token') => `https://lists.example/${root}/${form}`;

/** Claims about status that nobody reads. */
const UNREAD: readonly [string, unknown][] = [
  ['status', { status_list: { idx: '1', uri: listName(0, 'token') } }],
  ['status', { status_list: { idx: 1, uri: listName(0, 'token') }, other: {} }],
  ['status', []],
  ['credentialStatus', []],
  ['credentialStatus', { type: 'BitstringStatusListEntry', statusPurpose: 'suspension' }],
  ['drs_status', { list_url: listName(0, 'w3c') }],
  ['drs_status', 'x'],
];

/** Chains that share roots and receipts, like those of a few principals with many agents. */
export class Forest {
  readonly nodes: Node[] = [];
  private readonly random: Random;
  private readonly listed: number;
  private serial = 0;

  /** @param listed how often a receipt names an entry of a list */
  constructor(random: Random, roots: number, size: number, listed = 0) {
    this.random = random;
    this.listed = listed;
    for (let root = 0; root < roots; root++) this.grow(undefined);
    while (this.nodes.length < size) {
      const parent = random.pick(this.nodes);
      if (parent.depth < 5) this.grow(parent);
    }
    // One chain up to the limit of depth, and one receipt more.
    let node = this.nodes[0];
    while (node !== undefined && node.depth < 17) node = this.grow(node, true);
  }

  /** The chain that ends in a random receipt, and a call by its audience. */
  chain(): { links: Link[]; call: Link } {
    const shallow = this.nodes.filter(({ depth }) => depth <= 5);
    const leaf = this.random.pick(this.random.chance(0.03) ? this.nodes : shallow);
    const links: Link[] = [];
    for (let node: Node | undefined = leaf; node !== undefined; node = node.parent) links.unshift(node.link);
    return { links, call: this.call(links, leaf.audience) };
  }

  private grow(parent: Node | undefined, plain = false): Node {
    const { random } = this;
    const key = parent?.audience ?? random.below(4);
    const audience = random.below(KEYS);
    const number = this.serial++;
    const claims: [string, Json][] = [
      ['aud', toJson(didOf(audience))],
      ['cmd', toJson(parent === undefined ? random.pick(PATHS.slice(0, 3)) : this.below(parent, plain))],
      ['drs_type', toJson('delegation-receipt')],
      ['drs_v', toJson('4.0')],
      ['iat', toJson(NOW - 100)],
      ['iss', toJson(didOf(key))],
      ['jti', toJson(`dr:${number}`)],
      ['policy', this.policy(parent, plain)],
      ['sub', parent === undefined ? toJson(didOf(key)) : claim(parent, 'sub')],
    ];
    const isHuman = parent === undefined && random.chance(0.5);
    if (isHuman) claims.push(['drs_root_type', toJson('human')], ['drs_consent', parse(CONSENT)]);
    else if (random.chance(0.1))
      claims.push([
        'drs_root_type',
        toJson(
          random.pick([
            null,
            'organisation',
            'organisation',
            'agent',
            parent === undefined ? 'organisation' : 'human',
          ]),
        ),
      ]);
    this.addTimes(claims, parent, isHuman || isUnderHuman(parent), plain);
    if (random.chance(0.5)) claims.push(['drs_status_list_index', this.statusIndex()]);
    else if (random.chance(0.03)) claims.push(['drs_status_list_index', toJson(null)]);
    const root = parent?.root ?? key;
    if (this.listed > 0 && random.chance(this.listed)) claims.push(this.named(root));
    const node: Node = {
      link: { key, claims: { kind: 'object', members: claims } },
      parent,
      audience,
      depth: (parent?.depth ?? 0) + 1,
      root,
    };
    this.nodes.push(node);
    return node;
  }

  private below(parent: Node, plain: boolean): string {
    const cmd = claim(parent, 'cmd');
    const text = cmd.kind === 'string' ? cmd.value : '/';
    if (plain || this.random.chance(0.7)) return text;
    return this.random.chance(0.9) ? `${text}/x` : this.random.pick(PATHS);
  }

  private statusIndex(): Json {
    return toJson(this.index());
  }

  private index(): number {
    if (this.random.chance(0.03))
      return this.random.pick([STATUS_LIST_BITS, STATUS_LIST_BITS - 1, 2 ** 32, 2 ** 53 - 1]);
    return this.random.below(STATUS_LIST_BITS);
  }

  /** A claim that names an entry of a list, mostly of its own root and in its own form. */
  private named(ofRoot: number): [string, Json] {
    const { random } = this;
    if (random.chance(0.03)) {
      const [name, value] = random.pick(UNREAD);
      return [name, parse(JSON.stringify(value))];
    }
    const root = random.chance(0.97) ? ofRoot : random.below(4);
    const isOwn = random.chance(0.97);
    const entry = () => ({
      ...{ type: 'BitstringStatusListEntry', statusPurpose: 'revocation' },
      ...{
        statusListIndex: String(this.index()),
        statusListCredential: listName(root, isOwn ? 'w3c' : 'token'),
      },
    });
    const claim = random.pick([
      ['status', { status_list: { idx: this.index(), uri: listName(root, isOwn ? 'token' : 'w3c') } }],
      ['credentialStatus', random.chance(0.5) ? entry() : [entry(), entry()]],
      [
        'drs_status',
        { list_url: listName(root, random.pick(['w3c', 'token'] as const)), index: this.index() },
      ],
    ] as const);
    return [claim[0], parse(JSON.stringify(claim[1]))];
  }

  private addTimes(claims: [string, Json][], parent: Node | undefined, human: boolean, plain: boolean): void {
    const { random } = this;
    const wide = plain || random.chance(0.6);
    const nbf = numberOf(parent, 'nbf') ?? 1_500_000_000;
    const exp = numberOf(parent, 'exp');
    claims.push(['nbf', toJson(wide ? nbf : Math.max(nbf, random.pick([NOW - 10, NOW, 1_600_000_000])))]);
    const standing = !human && (exp === undefined ? random.chance(0.6) : random.chance(0.03));
    if (standing) {
      if (random.chance(0.5)) claims.push(['exp', toJson(null)]);
      return;
    }
    const latest = exp ?? 3_000_000_000;
    claims.push([
      'exp',
      toJson(wide ? latest : Math.min(latest, random.pick([NOW + 10, NOW, 2_900_000_000]))),
    ]);
  }

  /** A policy that is usually within the parent's. */
  private policy(parent: Node | undefined, plain: boolean): JsonObject {
    const { random } = this;
    const inherited = parent === undefined ? undefined : claim(parent, 'policy');
    const old = inherited?.kind === 'object' ? inherited.members : [];
    if (plain) return { kind: 'object', members: old };
    const members: [string, Json][] = [];
    for (const [name, value] of old) {
      // Under `*` a child need not repeat the list: what it then inherits is still a limit.
      const mayDrop =
        name !== 'approve_tools' &&
        value.kind === 'array' &&
        value.items.some((item) => item.kind === 'string' && item.value === '*');
      if (mayDrop && random.chance(0.3)) continue;
      const fate = random.next();
      const known = policyRow(name);
      if (fate < 0.75 || (known === undefined && fate < 0.97)) members.push([name, value]);
      else if (fate < 0.9 && known !== undefined) members.push([name, this.narrowed(name, value)]);
      else if (fate < 0.94) members.push([name, parse(known?.value(random) ?? extraValue(random))]);
      else if (fate < 0.945) members.push([name, toJson(null)]);
    }
    for (const name of POLICY_MEMBERS) {
      const share = policyRow(name)?.isRare === true ? 0.4 : 1;
      const isAbsent = !random.chance(share * (parent === undefined ? 0.35 : 0.08));
      if (members.some(([known]) => known === name) || isAbsent) continue;
      const value = random.chance(0.3) && /allowed/.test(name) ? '["*"]' : policyRow(name)?.value(random);
      members.push([name, random.chance(0.02) ? toJson(null) : parse(value ?? 'null')]);
    }
    if (random.chance(0.1)) {
      const name = random.pick(UNKNOWN_MEMBERS);
      if (!members.some(([known]) => known === name)) members.push([name, parse(extraValue(random))]);
    }
    if (random.chance(0.004))
      members.push([random.pick(['max_calls', 'max_delegations']), parse(random.pick(ODD))]);
    return { kind: 'object', members };
  }

  private narrowed(name: string, value: Json): Json {
    if (name === 'approve_tools' && value.kind === 'array')
      return { kind: 'array', items: [...value.items, toJson(this.random.pick(TOOLS))] };
    if (value.kind === 'array') {
      const items = value.items.filter(() => this.random.chance(0.7));
      return { kind: 'array', items: items.length === 0 ? value.items : items };
    }
    if (value.kind === 'number') return { kind: 'number', text: this.random.pick(['0', '0.0', value.text]) };
    if (value.kind === 'boolean') return { kind: 'boolean', value: false };
    return parse(policyRow(name)?.value(this.random) ?? 'null');
  }

  /** A call by the last delegate; usually one that every level allows. */
  private call(links: readonly Link[], key: number): Link {
    const { random } = this;
    const leaf = links.at(-1);
    const cmd = leaf === undefined ? undefined : member(leaf.claims, 'cmd');
    const policies = links
      .map(({ claims }) => member(claims, 'policy'))
      .filter((policy) => policy?.kind === 'object');
    let args = this.args();
    for (let attempt = 0; attempt < 24 && random.chance(0.97); attempt++) {
      const call = args;
      if (policies.every((policy) => hasKnownMembersOfRightType(policy) && allows(policy, call))) break;
      args = this.args();
    }
    const sub = links[0] === undefined ? undefined : member(links[0].claims, 'sub');
    const claims: [string, Json][] = [
      ['args', args],
      [
        'cmd',
        cmd?.kind === 'string' && random.chance(0.15) ? toJson(`${cmd.value}/y`) : (cmd ?? toJson('/x')),
      ],
      ['drs_type', toJson('invocation-receipt')],
      ['drs_v', toJson('4.0')],
      ['iat', toJson(NOW)],
      ['iss', toJson(didOf(key))],
      ['jti', toJson(`inv:${this.serial++}`)],
      ['sub', sub ?? toJson('')],
      ['tool_server', toJson(random.chance(0.85) ? (SERVERS[0] ?? '') : random.pick(SERVERS))],
    ];
    return { key, claims: { kind: 'object', members: claims } };
  }

  private args(): JsonObject {
    const { random } = this;
    const members: [string, Json][] = [];
    for (const { arg, argValue } of Object.values(POLICY)) {
      if (arg === undefined || argValue === undefined) continue;
      const odd = random.chance(0.02);
      if (odd || random.chance(arg === 'tool' || arg === 'estimated_cost_usd' ? 0.8 : 0.5))
        members.push([arg, parse(odd ? random.pick(ODD) : argValue(random))]);
    }
    if (random.chance(0.5)) members.push(['query', toJson(`tea ${random.below(1000)}`)]);
    if (random.chance(0.1)) members.push(['n', parse(random.pick(ODD))]);
    if (random.chance(0.05)) members.push(['__proto__', parse('{"tool":"search"}')]);
    return { kind: 'object', members };
  }
}

function claim(node: Node, name: string): Json {
  return member(node.link.claims, name) ?? toJson(null);
}

function numberOf(node: Node | undefined, name: string): number | undefined {
  const value = node === undefined ? undefined : claim(node, name);
  return value?.kind === 'number' ? Number(value.text) : undefined;
}

function isUnderHuman(node: Node | undefined): boolean {
  let root = node;
  while (root?.parent !== undefined) root = root.parent;
  return root !== undefined && writeJson(claim(root, 'drs_root_type')) === '"human"';
}
