import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { isJsonObject } from '../../src/protocol/json.js';
import { showDate } from '../shared/time.js';
import { causesOf, marksInJson, marksInJwt } from './cause.js';
import { numberClaim, pretty, short, textClaim, withPayload, type Token } from './decode.js';
import { Editor } from './editor.js';
import { refusalOf, type Inspection, type Settings } from './inspect.js';
import { nameOfRoot } from './known.js';
import { grantsOf, usesOf, withdrawalsOf, type Grant } from './limits.js';
import { domainOf, type Domain } from './time.js';
import { TimeAxis, Window } from './time-axis.js';

interface ChainProps {
  readonly found: Inspection;
  readonly now: number;
  readonly settings: Settings;
  /** Whether claims are shown, and may be edited. */
  readonly isPlain: boolean;
  /** `null` is the invocation. */
  readonly onEdit: (index: number | null, jwt: string) => void;
  readonly onRevoke: (index: number, isRevoked: boolean) => void;
}

/** The chain as a picture: who gave what to whom, what got narrower, and what is valid when. */
export function Chain({ found, now, settings, isPlain, onEdit, onRevoke }: ChainProps) {
  const { receipts, invocation } = found;
  const failure = refusalOf(found);
  const grants = grantsOf(receipts);
  const domain = domainOf(receipts, invocation, now);
  const causes = failure === null ? [] : causesOf(failure);
  const roleOf = (subject: number | 'invocation') =>
    (['cause', 'limit'] as const)[causes.findIndex((cause) => cause.subject === subject)] ?? null;
  const last = receipts.at(-1);
  const server = invocation === null ? null : textClaim(invocation, 'tool_server');
  return (
    <section class="card chain" aria-labelledby="chain-title">
      <h2 id="chain-title">Who gave what to whom</h2>
      <TimeAxis domain={domain} now={now} />
      <ol>
        {receipts.map((receipt, at) => (
          <li key={at}>
            <Party
              did={textClaim(receipt, 'iss')}
              role={at === 0 ? 'Principal' : `Agent ${at}`}
              name={at === 0 ? nameOfRoot(textClaim(receipt, 'iss'), settings.trustedRoots) : null}
            />
            <Step
              title={at === 0 ? 'allows' : 'passes on'}
              role={roleOf(at)}
              token={receipt}
              grants={grants[at] ?? []}
              {...{ domain, now, isPlain, found, settings, onRevoke }}
              subject={at}
              onEdit={(jwt) => onEdit(at, jwt)}
            />
          </li>
        ))}
        {last !== undefined && (
          <li>
            <Party did={textClaim(last, 'aud')} role={`Agent ${receipts.length}`} />
            {invocation !== null && (
              <Step
                title="calls"
                role={roleOf('invocation')}
                token={invocation}
                grants={[]}
                {...{ domain, now, isPlain, found, settings, onRevoke }}
                subject="invocation"
                onEdit={(jwt) => onEdit(null, jwt)}
              />
            )}
          </li>
        )}
        {server !== null && (
          <li class="end">
            <div class="party">
              <span class="avatar server" aria-hidden="true" />
              <span class="role">Tool server</span>
              <span class="name">{server}</span>
            </div>
          </li>
        )}
      </ol>
    </section>
  );
}

interface PartyProps {
  readonly did: string | null;
  readonly role: string;
  /** What the operator calls it. */
  readonly name?: string | null;
}

function Party({ did, role, name = null }: PartyProps) {
  return (
    <div class="party">
      <span class="avatar" aria-hidden="true" style={{ background: `hsl(${hueOf(did)} 55% 52%)` }} />
      <span class="role">{role}</span>
      {name !== null && <b class="called">{name}</b>}
      <span class="name" title={did ?? undefined}>
        {short(did)}
      </span>
    </div>
  );
}

/** Who is the same has the same colour. */
function hueOf(did: string | null): number {
  let hue = 0;
  for (const character of (did ?? '').slice(-12)) hue = (hue * 31 + (character.codePointAt(0) ?? 0)) % 360;
  return hue;
}

interface StepProps extends Pick<ChainProps, 'found' | 'now' | 'settings' | 'isPlain' | 'onRevoke'> {
  readonly title: string;
  /** Whether it holds the cause of the refusal, or the limit that the cause breaks. */
  readonly role: 'cause' | 'limit' | null;
  readonly token: Token;
  readonly grants: readonly Grant[];
  readonly domain: Domain;
  readonly subject: number | 'invocation';
  readonly onEdit: (jwt: string) => void;
}

function Step({
  title,
  role,
  token,
  grants,
  domain,
  now,
  found,
  subject,
  isPlain,
  settings,
  onRevoke,
  onEdit,
}: StepProps) {
  const command = textClaim(token, 'cmd');
  const index = numberClaim(token, 'drs_status_list_index');
  const isCall = subject === 'invocation';
  const changed = grants.filter(({ isChanged }) => isChanged);
  const same = grants.filter(({ isChanged }) => !isChanged);
  return (
    <div class={role === null ? 'step' : 'step failed'}>
      <div class="what">
        <p class="title">
          <span>
            {title} {isCall ? <Call token={token} /> : command !== null && <code>{command}</code>}
          </span>
          {role !== null && <span class="tag">{role === 'cause' ? 'the cause is here' : 'the limit'}</span>}
        </p>
        {token.text === null && <p class="note">It cannot be read.</p>}
        {changed.length > 0 && (
          <ul class="grants">
            {changed.map((grant) => (
              <li key={grant.name}>
                <GrantView grant={grant} />
              </li>
            ))}
          </ul>
        )}
        {!isCall && <UsedView token={token} settings={settings} />}
        {same.length > 0 && <p class="note">As before: {same.map(inWords).join(' · ')}</p>}
        {!isCall && grants.length === 0 && token.text !== null && <p class="note">No limits of its own</p>}
        {!isCall && <Withdrawn token={token} isFirst={subject === 0} settings={settings} />}
        {index !== null && !isPlain && (
          <label class="check">
            <input
              type="checkbox"
              checked={settings.revoked.has(index)}
              onChange={(event) => onRevoke(index, event.currentTarget.checked)}
            />
            revoked (status list index {index})
          </label>
        )}
      </div>
      <Window token={token} domain={domain} now={now} />
      {!isPlain && <Claims {...{ token, found, subject, onEdit }} />}
    </div>
  );
}

function Call({ token }: { readonly token: Token }) {
  const args = token.claims['args'];
  const tool = isJsonObject(args) ? args['tool'] : undefined;
  return <code>{typeof tool === 'string' ? tool : (textClaim(token, 'cmd') ?? '?')}</code>;
}

const MAX_ITEMS = 12;

function GrantView({ grant }: { readonly grant: Grant }) {
  return (
    <span class="grant">
      <span class="label">{grant.label}</span>
      <span class="values">{valuesOf(grant)}</span>
    </span>
  );
}

function valuesOf(grant: Grant): ComponentChildren {
  if (grant.kind === 'number')
    return (
      <>
        <Bar share={grant.share} before={grant.before} />
        <span class="value">at most {grant.value}</span>
      </>
    );
  if (grant.kind === 'flag')
    return <span class={grant.value ? 'chip' : 'chip denied'}>{grant.value ? 'yes' : 'no'}</span>;
  if (grant.kind === 'other') return <code class="value">{grant.text.slice(0, 80)}</code>;
  return (
    <>
      {grant.kept.length === 0 && <span class="chip denied">none</span>}
      {grant.kept.slice(0, MAX_ITEMS).map((item, at) => (
        <span class="chip" key={at} title={item}>
          {item === '*' ? 'any' : item}
        </span>
      ))}
      {grant.dropped.slice(0, MAX_ITEMS).map((item, at) => (
        <del class="chip dropped" key={`-${at}`}>
          <span class="hidden">no longer </span>
          {item}
        </del>
      ))}
      {grant.kept.length > MAX_ITEMS && <span class="note">and {grant.kept.length - MAX_ITEMS} more</span>}
    </>
  );
}

/** Shares of a whole, from 0 to 1; the number is beside it. */
function Bar({ share, before }: { readonly share: number; readonly before?: number }) {
  const widthOf = (of: number) => (of === 0 ? 0 : Math.max(2, 96 * Math.min(1, of)));
  return (
    <svg class="bar" width="96" height="10" viewBox="0 0 96 10" aria-hidden="true">
      <rect class="track" width={96} height="10" rx="3" />
      {before !== undefined && <rect class="before" width={widthOf(before)} height="10" rx="3" />}
      <rect class="now" width={widthOf(share)} height="10" rx="3" />
    </svg>
  );
}

function inWords(grant: Grant): string {
  switch (grant.kind) {
    case 'list':
      return `${grant.label} ${grant.kept.length === 0 ? 'none' : grant.kept.slice(0, 3).join(', ')}${grant.kept.length > 3 ? '…' : ''}`;
    case 'number':
      return `${grant.label} at most ${grant.value}`;
    case 'flag':
      return `${grant.label} ${grant.value ? 'yes' : 'no'}`;
    case 'other':
      return `${grant.label} ${grant.text.slice(0, 40)} (for the tool server)`;
  }
}

type ClaimsProps = Pick<StepProps, 'token' | 'found' | 'subject' | 'onEdit'>;

/** The claims as they are signed, to read and to edit. The cause of a refusal is marked in them. */
function Claims({ token, found, subject, onEdit }: ClaimsProps) {
  const failure = refusalOf(found);
  const causes = failure === null ? [] : causesOf(failure).filter((cause) => cause.subject === subject);
  const [cause] = causes;
  const isFailed = cause !== undefined;
  const text = token.text === null ? null : pretty(token.text);
  const name = subject === 'invocation' ? 'the invocation' : `receipt ${subject}`;
  const message = failure?.message ?? '';
  return (
    <Disclosure summary={`Claims of ${name}`} isNeeded={isFailed}>
      {text !== null && (
        <Editor
          label={`Claims of ${name}`}
          value={text}
          colours="json"
          marksIn={(shown) =>
            causes
              .filter(({ part }) => part === 'payload')
              .flatMap(({ path }) => marksInJson(shown, path, message))
          }
          onEdit={(edited) => onEdit(withPayload(token.jwt, edited))}
        />
      )}
      <Disclosure
        summary="As it is signed (JWT)"
        isNeeded={isFailed && (text === null || cause.part !== 'payload')}
      >
        <Editor
          label={`JWT of ${name}`}
          value={token.jwt}
          colours="jwt"
          marksIn={(shown) =>
            cause === undefined || (cause.part === 'payload' && text !== null)
              ? []
              : marksInJwt(shown, cause.part)
          }
          onEdit={(edited) => onEdit(edited.replaceAll(/\s/g, ''))}
        />
      </Disclosure>
    </Disclosure>
  );
}

interface OfService {
  readonly token: Token;
  readonly settings: Settings;
}

/** What has been used of the limits of one receipt. */
function UsedView({ token, settings }: OfService) {
  const uses = usesOf(token, settings);
  return (
    <ul class="grants">
      {uses.map(({ label, used, limit, isReached }) => (
        <li key={label} class={isReached ? 'grant used reached' : 'grant used'}>
          <span class="label">{label}</span>
          <span class="values">
            <Bar share={limit === 0 ? 1 : used / limit} />
            <span class="value">
              {used} of {limit}
              {isReached && ': used up'}
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}

/** What of one receipt is revoked locally, when and why, as the service noted it. */
function Withdrawn({ token, isFirst, settings }: OfService & { readonly isFirst: boolean }) {
  return (
    <>
      {withdrawalsOf(token, isFirst, settings).map(({ what, at, reason }) => (
        <p class="withdrawn" key={what}>
          <b>{what} is revoked</b>
          {at !== null && ` since ${showDate(at / 1000)}`}
          {reason !== null && `: ${reason}`}
        </p>
      ))}
    </>
  );
}

interface DisclosureProps {
  readonly summary: string;
  /** Opens it. It does not close by itself: somebody may be typing in it. */
  readonly isNeeded: boolean;
  readonly children: ComponentChildren;
}

function Disclosure({ summary, isNeeded, children }: DisclosureProps) {
  const isOpen = useRef(false);
  if (isNeeded) isOpen.current = true;
  return (
    <details
      class="claims"
      open={isOpen.current}
      onToggle={(event) => {
        isOpen.current = event.currentTarget.open;
      }}
    >
      <summary>{summary}</summary>
      {children}
    </details>
  );
}
