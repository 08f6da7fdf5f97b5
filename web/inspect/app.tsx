import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Sodium } from '../../src/pure/parts.js';
import { isJsonObject, type JsonValue } from '../../src/protocol/json.js';
import { useClock } from '../shared/clock.js';
import { Title } from '../shared/title.js';
import { Chain } from './chain.js';
import { causesOf, marksInJson, type Mark } from './cause.js';
import { EXAMPLES, makeExample, type ExampleName, type ExampleSodium } from './example.js';
import { Input } from './input.js';
import { inspect, ofNote, type Inspection, type Settings, type Subjects } from './inspect.js';
import { readRoots, readTools } from './known.js';
import { KnownCard, NOTHING_KNOWN, strayUsage, type Known } from './known-card.js';
import { Out } from './out.js';
import { PlainWords } from './plain.js';
import { isAside, recognise, type Aside, type Facts, type Recognised } from './recognise.js';
import { isRedacted } from './share.js';
import { unpackList } from './status-list.js';
import { Strip, Verdict } from './verdict.js';
import { NOTHING_ASSUMED, WhatIf, type Assumptions } from './what-if.js';

interface AppProps {
  readonly sodium: Sodium & ExampleSodium;
  /** What the page was opened with. */
  readonly given: string;
}

/** What is in the page, besides the text that was pasted. */
interface State {
  readonly input: string;
  readonly recognised: Recognised;
  /** With the edits of the reader; `null` if there is nothing to judge. */
  readonly subjects: Subjects | null;
  readonly isEdited: boolean;
}

function stateOf(input: string): State {
  const recognised = recognise(input);
  return { input, recognised, subjects: subjectsOf(recognised), isEdited: false };
}

function subjectsOf(recognised: Recognised): Subjects | null {
  if (recognised.kind === 'bundle') {
    const { bundle, body, call } = recognised;
    return { bundle, body, call };
  }
  if (recognised.kind === 'receipts') return { bundle: { receipts: [...recognised.receipts] }, body: null };
  return null;
}

/** The whole page. */
export function App({ sodium, given }: AppProps) {
  const [state, setState] = useState(() => stateOf(isAside(recognise(given)) ? '' : given));
  const [assumed, setAssumed] = useState<Assumptions>(NOTHING_ASSUMED);
  const [revoked, setRevoked] = useState<ReadonlySet<number>>(new Set());
  const [known, setKnown] = useState(NOTHING_KNOWN);
  /** What became of the text that was pasted last beside the bundle. */
  const [said, setSaid] = useState('');
  const [isPlain, setPlain] = useState(false);
  const clock = useClock();
  const now = assumed.now ?? clock;
  const trusted = useMemo(() => readRoots(assumed.trustedRoots), [assumed.trustedRoots]);
  const operator = useMemo(() => readTools(assumed.tools), [assumed.tools]);
  const settings = useMemo(
    (): Settings => ({
      ...{ now, clockSkewSecs: assumed.clockSkewSecs, serverIdentity: assumed.serverIdentity },
      ...{
        trustedRoots: trusted.roots,
        tools: operator.lines,
        requireBinding: assumed.requireBinding,
        revoked,
        ...known,
      },
    }),
    [now, assumed, trusted, operator, revoked, known],
  );
  const found = useInspection(sodium, state, settings);
  const learn = (change: Partial<Known>) => setKnown((before) => ({ ...before, ...change }));

  /** @returns whether the text was taken beside the bundle, which stays */
  const take = (input: string): boolean => {
    // As the text comes back after another was taken from it.
    if (input === state.input) return false;
    const recognised = recognise(input);
    if (!isAside(recognised)) {
      setSaid('');
      setState(stateOf(input));
      return false;
    }
    use(recognised);
    return true;
  };
  const use = (aside: Aside) => {
    const stray = aside.kind === 'usage' ? strayUsage(aside.used, found) : null;
    setSaid(`Recognised: ${aside.words}. ${stray ?? ''}`);
    switch (aside.kind) {
      case 'usage':
        setKnown((before) => ({
          ...before,
          used: new Map([...before.used, ...aside.used]),
          countedAt: [...aside.used.values()].some(({ gate }) => gate !== null) ? 'gate' : 'verify',
        }));
        break;
      case 'revocations':
        learn({ entries: aside.entries });
        break;
      case 'roots':
        setAssumed((before) => ({ ...before, trustedRoots: aside.text }));
        break;
      case 'status list':
        unpackList(aside.credential).then(
          (list) => learn({ list }),
          (error: unknown) =>
            setSaid(
              `The status list cannot be used: ${error instanceof Error ? error.message : String(error)}`,
            ),
        );
    }
  };
  useEffect(() => {
    const recognised = recognise(given);
    if (isAside(recognised)) use(recognised);
  }, [given]);
  const showExample = (name: ExampleName) => {
    const example = makeExample(name, sodium, clock);
    setAssumed(NOTHING_ASSUMED);
    setKnown(NOTHING_KNOWN);
    setSaid('');
    setRevoked(example.settings.revoked ?? new Set());
    setState(stateOf(example.input));
  };
  const change = (subjects: Subjects) => setState({ ...state, subjects, isEdited: true });
  const { subjects, recognised } = state;
  const note = recognised.kind === 'bundle' ? recognised.note : undefined;
  const isAnyKnown = known !== NOTHING_KNOWN || assumed.trustedRoots !== '';
  const knownCard = (
    <KnownCard
      {...{ found, known }}
      roots={trusted.roots.length}
      onChange={learn}
      onNoRoots={() => setAssumed({ ...assumed, trustedRoots: '' })}
    />
  );
  return (
    <>
      <header>
        <Title page="inspector" />
        <div class="tabs" role="group" aria-label="View">
          <button type="button" aria-pressed={!isPlain} onClick={() => setPlain(false)}>
            In detail
          </button>
          <button type="button" aria-pressed={isPlain} onClick={() => setPlain(true)}>
            In plain words
          </button>
        </div>
      </header>
      {found !== null && <Strip found={found} />}
      <main class={found === null ? 'empty' : 'full'}>
        <div class="left">
          <Input
            text={state.input}
            words={recognised.words}
            kind={recognised.kind}
            marksIn={(text) => (found === null ? [] : inputMarks(text, state, found))}
            notes={[
              said,
              note,
              subjects !== null && isRedacted(subjects.bundle)
                ? 'The signature of the call was taken out before this was passed on.'
                : undefined,
            ]}
            examples={EXAMPLES}
            onText={take}
            onExample={showExample}
          />
          {found !== null && isPlain && (
            <PlainWords {...{ found, now }} roots={trusted.roots} tools={operator.tools} />
          )}
          {'facts' in recognised && <FactsCard facts={recognised.facts} />}
          {found !== null && found.receipts.length > 0 && (
            <Chain
              key={state.input}
              {...{ found, now, settings, isPlain }}
              onRevoke={(index, isRevoked) => {
                const next = new Set(revoked);
                if (isRevoked) next.add(index);
                else next.delete(index);
                setRevoked(next);
              }}
              onEdit={(index, jwt) => {
                if (subjects !== null) change({ ...subjects, bundle: withJwt(subjects.bundle, index, jwt) });
              }}
            />
          )}
        </div>
        {found === null && isAnyKnown && knownCard}
        {found !== null && (
          <div class="right">
            <Verdict
              {...{ found, isPlain }}
              isEdited={state.isEdited}
              onRestore={() => setState(stateOf(state.input))}
            />
            {subjects !== null && !isPlain && knownCard}
            {subjects !== null && !isPlain && found.receipts.length > 0 && (
              <WhatIf
                {...{ found, now, operator }}
                problem={trusted.problem}
                given={assumed}
                body={subjects.body}
                onChange={setAssumed}
                onBody={(body) => change({ ...subjects, body })}
              />
            )}
            {found.subjects !== null && !isPlain && (
              <Out {...{ subjects: found.subjects, found, settings, clock }} />
            )}
          </div>
        )}
      </main>
      <footer>
        The strict verifier itself runs in this page, with libsodium. It has no network: nothing that you
        paste leaves it.
      </footer>
    </>
  );
}

/** Judges whenever something changes. What came of older questions is dropped. */
function useInspection(
  sodium: Sodium,
  { subjects, recognised }: State,
  settings: Settings,
): Inspection | null {
  const [found, setFound] = useState<Inspection | null>(null);
  useEffect(() => {
    if (subjects === null) {
      setFound(recognised.kind === 'refusal' ? ofNote(recognised.refusal) : null);
      return undefined;
    }
    let isWanted = true;
    inspect(sodium, subjects, settings).then(
      (next) => {
        if (isWanted) setFound(next);
      },
      (error: unknown) => reportError(error),
    );
    return () => {
      isWanted = false;
    };
  }, [sodium, subjects, recognised, settings]);
  return found;
}

/** Marks in the text that was pasted: a fault of the bundle itself. */
function inputMarks(text: string, { recognised, isEdited }: State, { failure }: Inspection): Mark[] {
  if (
    recognised.kind !== 'bundle' ||
    isEdited ||
    failure?.subject !== 'bundle' ||
    !text.trimStart().startsWith('{')
  )
    return [];
  return causesOf(failure).flatMap(({ path }) => marksInJson(text, path, failure.message));
}

function withJwt(bundle: JsonValue, index: number | null, jwt: string): JsonValue {
  if (!isJsonObject(bundle)) return bundle;
  if (index === null) return { ...bundle, invocation: jwt };
  const { receipts } = bundle;
  return Array.isArray(receipts) ? { ...bundle, receipts: receipts.with(index, jwt) } : bundle;
}

function FactsCard({ facts }: { readonly facts: Facts }) {
  return (
    <section class="card facts" aria-labelledby="facts-title">
      <h2 id="facts-title">What was noted</h2>
      <p class="note">A log holds no bundle. Paste the bundle of the call to see all that it says.</p>
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
