import type { ComponentChild, ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { digestOf } from '../../src/protocol/jwt.js';
import type { Entries } from '../../src/revocation/entries.js';
import { short } from './decode.js';
import { isCounted, type Inspection } from './inspect.js';
import type { Place, UsedByReceipt } from './known.js';

/** What was pasted of what only a service knows. */
export interface Known {
  /** Its bits, unpacked. */
  readonly list: Uint8Array | null;
  readonly entries: Entries | null;
  readonly used: UsedByReceipt;
  /** Where a service counts that decides. */
  readonly countedAt: Place;
}

export const NOTHING_KNOWN: Known = { list: null, entries: null, used: new Map(), countedAt: 'gate' };

interface KnownCardProps {
  readonly found: Inspection | null;
  readonly known: Known;
  /** How many principals are trusted; 0 for anybody. */
  readonly roots: number;
  readonly onChange: (change: Partial<Known>) => void;
  readonly onNoRoots: () => void;
}

const PLACES: Readonly<Record<Place, string>> = { gate: 'by the gate', verify: 'by /verify' };

/** What is used beside the bundle, and how to take it off; and how to get what is not there. */
export function KnownCard({ found, known, roots, onChange, onNoRoots }: KnownCardProps) {
  const { list, entries, used, countedAt } = known;
  const counted = (found?.receipts ?? []).filter(isCounted).map(({ jwt }) => digestOf(jwt));
  const missing = counted.find((digest) => !used.has(digest));
  const here = counted.filter((digest) => used.has(digest)).length;
  const isChoice = [...used.values()].some(({ verify, gate }) => verify !== null && gate !== null);
  const title = useRef<HTMLHeadingElement>(null);
  /** The button goes with what it takes off: who uses the keyboard must not begin at the top of the page again. */
  const remove = (change: () => void) => () => {
    change();
    title.current?.focus();
  };
  return (
    <section class="card known" aria-labelledby="known-title">
      <h2 id="known-title" ref={title} tabIndex={-1}>
        What only a service knows
      </h2>
      <p class="note">Paste or drop it here, too: it is used beside the bundle.</p>
      <ul>
        <Row
          name="Trusted roots"
          says={roots === 0 ? null : roots === 1 ? 'One principal' : `${roots} principals`}
          how={
            <>
              the file that <code>TRUSTED_ROOTS_FILE</code> names
            </>
          }
          onRemove={remove(onNoRoots)}
        />
        <Row
          name="Local revocations"
          says={entries === null ? null : entries.size === 1 ? 'One entry' : `${entries.size} entries`}
          how={<code>npx drs-verify revocations list</code>}
          onRemove={remove(() => onChange({ entries: null }))}
        />
        <Row
          name="Status list"
          says={list === null ? null : `${list.length * 8} entries; its signature was not checked`}
          how={
            <>
              <code>curl</code> of the service’s <code>STATUS_LIST_BASE_URL</code>
            </>
          }
          onRemove={remove(() => onChange({ list: null }))}
        />
        <Row
          name="Limits used"
          says={
            used.size === 0
              ? null
              : found === null
                ? `Of ${used.size} receipt${used.size === 1 ? '' : 's'}`
                : `Of ${here} of the ${counted.length} receipts here with such limits`
          }
          how={
            found !== null && counted.length === 0 ? (
              'no receipt here has limits that are counted'
            ) : (
              <code>npx drs-verify usage {missing ?? 'receipt.jwt'}</code>
            )
          }
          more={used.size > 0 && missing !== undefined}
          onRemove={remove(() => onChange({ used: new Map() }))}
        >
          {isChoice && (
            <div class="tabs" role="group" aria-label="Counted">
              {(Object.keys(PLACES) as Place[]).map((place) => (
                <button
                  type="button"
                  key={place}
                  aria-pressed={place === countedAt}
                  onClick={() => onChange({ countedAt: place })}
                >
                  {PLACES[place]}
                </button>
              ))}
            </div>
          )}
        </Row>
      </ul>
    </section>
  );
}

interface RowProps {
  readonly name: string;
  /** What is in use; `null` if nothing is. */
  readonly says: string | null;
  /** How to get it. */
  readonly how: ComponentChild;
  /** Whether more of it can be pasted. */
  readonly more?: boolean;
  readonly children?: ComponentChildren;
  readonly onRemove: () => void;
}

function Row({ name, says, how, more = false, children, onRemove }: RowProps) {
  return (
    <li class={says === null ? '' : 'here'}>
      <h3>{name}</h3>
      {says !== null && (
        <button type="button" aria-label={`Take off: ${name}`} onClick={onRemove}>
          Take off
        </button>
      )}
      {says !== null && <p>{says}</p>}
      {(says === null || more) && <p class="how">{how}</p>}
      {children}
    </li>
  );
}

/** What of an answer is about no receipt that is here. */
export function strayUsage(used: UsedByReceipt, found: Inspection | null): string | null {
  if (found === null || found.receipts.length === 0) return null;
  const here = new Set(found.receipts.map(({ jwt }) => digestOf(jwt)));
  const stray = [...used.keys()].filter((digest) => !here.has(digest));
  return stray.length === 0
    ? null
    : `No receipt here has the digest ${stray
        .slice(0, 3)
        .map((digest) => short(digest))
        .join(', ')}.`;
}
