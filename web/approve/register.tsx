import { useState } from 'preact/hooks';
import { Copy } from '../shared/copy.js';
import { Title } from '../shared/title.js';
import { register, wordsOf } from './passkey.js';

/** That of a name in the file of trusted roots. */
const MAX_NAME = 200;

/** Makes a passkey, and shows the line that an operator needs. Nothing is stored. */
export function Register() {
  const [name, setName] = useState('');
  const [line, setLine] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const make = async () => {
    setLine(null);
    setProblem(null);
    try {
      setLine(JSON.stringify(await register(name.trim())));
    } catch (error) {
      setProblem(wordsOf(error));
    }
  };
  return (
    <>
      <header>
        <Title page="register a passkey" />
      </header>
      <main>
        <section class="card" aria-labelledby="make-title">
          <h2 id="make-title">Make a passkey for this page</h2>
          <p>
            With it you say yes to calls of agents, at {location.host} only. Keep it on a device, or on a
            security key, that no agent drives.
          </p>
          <form
            class="field"
            onSubmit={(event) => {
              event.preventDefault();
              void make();
            }}
          >
            <label for="name">Your name, as others know you</label>
            <input
              id="name"
              type="text"
              required
              pattern=".*\S.*"
              maxLength={MAX_NAME}
              autocomplete="name"
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
            <button type="submit">Make a passkey</button>
          </form>
          <div role="alert">{problem !== null && <p class="bad">{problem}</p>}</div>
        </section>
        {line !== null && (
          <section class="card" aria-labelledby="line-title" role="status">
            <h2 id="line-title">Send this line to the operator</h2>
            <p>
              It is no secret, but it must come from you: whoever exchanges it on its way can say yes in your
              name. Nothing of it is stored here.
            </p>
            <Copy label="The line for approvers" text={line} />
          </section>
        )}
      </main>
      <footer>The operator puts the line into approvers of an entry in the file of trusted roots.</footer>
    </>
  );
}
