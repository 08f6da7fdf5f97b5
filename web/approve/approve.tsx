import { encodeUtf8 } from '#platform';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { isJsonObject } from '../../src/protocol/json.js';
import { useClock } from '../shared/clock.js';
import { Marked } from '../shared/marked.js';
import { piecesOf } from '../shared/marks.js';
import { showDate, showSpan } from '../shared/time.js';
import { Title } from '../shared/title.js';
import { PolicyWords } from '../shared/words.js';
import { sign, wordsOf } from './passkey.js';
import { QrCode } from './qr.js';
import { readStatement, walk, type PrivateQuestion, type Question, type Statement } from './statement.js';
import { Amount, Value } from './value.js';

const PATH = location.pathname;
const HANDLE = PATH.slice(PATH.lastIndexOf('/') + 1);

/** What is in the page. */
type View =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'private'; readonly question: PrivateQuestion }
  | {
      readonly kind: 'question';
      readonly question: Question;
      readonly statement: Statement;
      /** What became of the answer of this page; `null` before it. */
      readonly answered: Answered | null;
    };

interface Answered {
  readonly state: Question['state'];
  /** How many persons must still say yes. */
  readonly missing: number;
}

/** Asks the gate, and tells it. */
async function call(path: string, body?: object): Promise<unknown> {
  const response = await fetch(path, {
    cache: 'no-store',
    ...(body !== undefined && {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    }),
  }).catch(() => {
    throw new Error('The gate cannot be reached. Try again in a moment.');
  });
  const said: unknown = await response.json().catch(() => null);
  if (response.ok) return said;
  if (response.status === 404)
    throw new Error(
      'There is no such question, or it is over. If the agent makes the call again, it gets a new link.',
    );
  if (response.status === 429) throw new Error('Too many people ask this gate. Try again in a minute.');
  const error = isJsonObject(said) ? said['error'] : undefined;
  throw new Error(
    `The gate did not take it: ${typeof error === 'string' ? error : `status ${response.status}`}.`,
  );
}

function viewOf(said: unknown): View {
  if (isJsonObject(said) && said['private'] === true)
    return { kind: 'private', question: said as unknown as PrivateQuestion };
  if (!isJsonObject(said)) throw new Error('This is no answer of a gate. Tell its operator.');
  const question = said as unknown as Question;
  const read = readStatement(question, HANDLE);
  if ('problem' in read)
    throw new Error(
      `This page asks for no yes, because what the gate sent cannot be trusted: ${read.problem}. Tell its operator.`,
    );
  return { kind: 'question', question, statement: read.value, answered: null };
}

/** Of the bytes that a passkey signs, all of which this page makes itself. */
const digestOf = (text: string) => crypto.subtle.digest('SHA-256', encodeUtf8(text) as BufferSource);

async function reveal({ approvers }: PrivateQuestion): Promise<View> {
  // No statement begins so: whoever wants to see it has not said yes.
  const challenge = await digestOf(`drs-approval-view:${HANDLE}`);
  const ids = approvers.map(({ id }) => id);
  return viewOf(await call(`${PATH}/statement`, await sign(challenge, ids)));
}

/** The page of a question. */
export function Approve() {
  const [view, setView] = useState<View>({ kind: 'nothing' });
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(true);
  const run = async (step: () => Promise<View>) => {
    setBusy(true);
    setProblem(null);
    try {
      setView(await step());
    } catch (error) {
      setProblem(wordsOf(error));
    }
    setBusy(false);
  };
  /** One at a time. A button that is disabled meanwhile would lose the focus. */
  const start = (step: () => Promise<View>) => {
    if (!isBusy) void run(step);
  };
  const load = async () => viewOf(await call(`${PATH}/statement`));
  useEffect(() => void run(load), []);
  return (
    <>
      <header>
        <Title page="approve a call" />
      </header>
      <main>
        {view.kind === 'question' && <Call {...view} />}
        <section class="card answer" aria-busy={isBusy}>
          {view.kind === 'private' && (
            <>
              <h2>This question is private</h2>
              <p>It is shown to whoever can answer it. That says neither yes nor no.</p>
              <button type="button" aria-disabled={isBusy} onClick={() => start(() => reveal(view.question))}>
                Show it with my passkey
              </button>
            </>
          )}
          {view.kind === 'question' && <Answer {...{ view, isBusy, start }} />}
          <div role="alert">
            {problem !== null && <p class="bad">{problem}</p>}
            {view.kind === 'nothing' && isBusy && <p>Asking the gate…</p>}
          </div>
          {view.kind === 'nothing' && !isBusy && (
            <button type="button" onClick={() => start(load)}>
              Try again
            </button>
          )}
        </section>
        {view.kind !== 'nothing' && (
          <section class="card other" aria-labelledby="other-title">
            <div>
              <h2 id="other-title">On another device</h2>
              <p>
                An agent that drives this browser sees this page. Your passkey may be on a device that it does
                not drive: open the page there.
              </p>
            </div>
            <QrCode address={location.origin + PATH} />
          </section>
        )}
      </main>
      <footer>
        Your passkey signs the SHA-256 of all that is shown here of the call, which this page computes itself.
      </footer>
    </>
  );
}

interface CallProps {
  readonly question: Question;
  readonly statement: Statement;
}

/** What the agent wants, and who it is. */
function Call({ question, statement }: CallProps) {
  const { args, tool_server, command, root, agent, leaf, requested_at } = statement;
  const { root_name, receipts } = question;
  const { tool, estimated_cost_usd: cost } = args;
  const ends = receipts.map(({ exp }) => exp).filter((exp) => typeof exp === 'number');
  return (
    <>
      <section class="card wish" aria-labelledby="wish-title">
        <h2 id="wish-title">
          An agent of <Marked text={root_name ?? 'the principal below'} /> wants to call{' '}
          <b>
            <Marked text={typeof tool === 'string' ? tool : command} />
          </b>{' '}
          on <Marked text={tool_server} />
        </h2>
        {typeof cost === 'number' && (
          <p>
            <Amount text={String(cost)} /> US dollars, as the agent says
          </p>
        )}
        <h3>
          What it sends <Whose>the agent's words</Whose>
        </h3>
        <Value value={args} />
      </section>
      <section class="card words-card" aria-labelledby="who-title">
        <h2 id="who-title">Who asks</h2>
        <dl>
          <Fact name="Agent">{agent}</Fact>
          <Fact name="For">
            {root_name !== null && (
              <>
                <Marked text={root_name} /> <Whose>the operator's name</Whose>{' '}
              </>
            )}
            {root}
          </Fact>
          <Fact name="Command">
            <Marked text={command} />
          </Fact>
          <Fact name="Asked">{showDate(requested_at)}</Fact>
          <Fact name="Receipt">{leaf}</Fact>
          <Fact name="Ends">
            {ends.length === 0 ? 'The receipts have no end.' : showDate(Math.min(...ends))}
          </Fact>
        </dl>
        <h3>What this agent may do under its receipts</h3>
        <ol>
          <PolicyWords receipts={receipts} />
        </ol>
      </section>
    </>
  );
}

function Whose({ children }: { readonly children: ComponentChildren }) {
  return <span class="whose">{children}</span>;
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

interface AnswerProps {
  readonly view: View & { readonly kind: 'question' };
  readonly isBusy: boolean;
  readonly start: (step: () => Promise<View>) => void;
}

/** Both buttons, what to look out for before, and what becomes of it. */
function Answer({ view, isBusy, start }: AnswerProps) {
  const { question, statement, answered } = view;
  const left = question.ends - useClock();
  const state = left <= 0 ? 'over' : (answered?.state ?? question.state);
  const isOpen = state === 'asked' && answered === null;
  const ids = question.approvers.flatMap(({ name, id }) => (question.said.includes(name) ? [] : id));
  const post = async (body: object): Promise<View> => ({
    ...view,
    answered: (await call(PATH, body)) as Answered,
  });
  const yes = async () => {
    // Of the text from which everything on the page was read.
    const challenge = await digestOf(question.statement);
    return post({ answer: 'yes', ...(await sign(challenge, ids)) });
  };
  const [headline, words] = describe(state, view);
  return (
    <>
      <div role="status">
        <h2>{headline}</h2>
        <p>{words}</p>
      </div>
      {isOpen && <Warnings statement={statement} />}
      {isOpen && question.said.length > 0 && <p>Yes was said by {question.said.join(', ')}.</p>}
      {isOpen && ids.length === 0 && (
        <p class="bad">
          No passkey can say yes at {location.origin}. Open the page at the address where yours was made, or
          ask the operator to add one that you make here.
        </p>
      )}
      <div class="buttons">
        {isOpen && (
          <button type="button" disabled={ids.length === 0} aria-disabled={isBusy} onClick={() => start(yes)}>
            Yes, this call
          </button>
        )}
        {(state === 'asked' || state === 'approved') && (
          <button type="button" aria-disabled={isBusy} onClick={() => start(() => post({ answer: 'no' }))}>
            {isOpen ? 'No' : 'No, take it back'}
          </button>
        )}
      </div>
      {isOpen && (
        <p class="note">
          It waits until {showDate(question.ends)}, for {showSpan(left)} more.
        </p>
      )}
    </>
  );
}

const persons = (count: number) => (count === 1 ? '1 person' : `${count} persons`);

/** What the state of a question means: a headline, and what follows from it. */
function describe(
  state: Question['state'] | 'over',
  { question, answered }: AnswerProps['view'],
): readonly [headline: string, words: string] {
  const isOurs = answered !== null;
  switch (state) {
    case 'over':
      return ['This question is over', 'If the agent makes the call again, it gets a new link.'];
    case 'denied':
      return [
        isOurs ? 'You said no' : 'Somebody said no',
        'The call is refused. For ten minutes, the agent cannot ask for the same call again.',
      ];
    case 'approved':
      return [
        isOurs ? 'You said yes' : 'Approved already',
        'The agent can make this call once, within ten minutes. You can close this page.',
      ];
    case 'asked': {
      const missing = answered?.missing ?? question.needed - question.said.length;
      const still = `Still missing: ${persons(missing)}, each with a passkey of their own.`;
      if (isOurs) return ['You said yes', `${still} Give them this address.`];
      return [
        'Do you say yes to this call?',
        `Your yes is for one call with exactly these values, within ten minutes. ${question.needed > 1 ? still : ''}`,
      ];
    }
  }
}

/** What somebody could overlook above. */
function Warnings({ statement: { args, command, tool_server } }: { readonly statement: Statement }) {
  let marked = 0;
  let folded = 0;
  const countMarks = (text: string) => {
    for (const { kind } of piecesOf(text)) if (kind === 'hidden' || kind === 'like') marked++;
  };
  walk({ args, command, tool_server }, countMarks, () => folded++);
  return (
    <>
      {marked > 0 && (
        <p class="bad">
          Marked above ({marked}): characters that hide, turn the direction, or look like others.
        </p>
      )}
      {folded > 0 && <p class="bad">Folded above, since they are long: {folded}. Unfold them first.</p>}
    </>
  );
}
