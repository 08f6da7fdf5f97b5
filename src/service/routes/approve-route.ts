import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { decodeBase64url, decodeUtf8, encodeBase64url } from '#platform';
import type { Approvals } from '../../approval/approvals.js';
import { countedYeses, missing, type Question } from '../../approval/steps.js';
import { challengeToView } from '../../approval/statement.js';
import { checkAssertion, type Assertion } from '../../approval/webauthn.js';
import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { answerTo } from '../http/body-handler.js';
import { errorAnswer, type Answer, type Exchange } from '../http/exchange.js';
import type { Route } from '../http/serve.js';
import type { Ticket } from '../load/gatekeeper.js';
import { RateLimit } from '../load/rate-limit.js';
import type { RouteContext } from '../core.js';

const BODY_BYTES = 16 * 1024;
/** Somebody who opens a question sends ten. All persons behind one proxy may be one client. */
const REQUESTS_PER_MINUTE = 300;

const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
};

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const PAGE = '/approve/index.html';
const PATH = /^\/approve\/([\w-]{1,64})(\/statement)?$/;
const SIGNED = ['clientDataJSON', 'authenticatorData', 'signature'];
const NO_QUESTION = errorAnswer(404, 'there is no such question, or it is over');
const MALFORMED = errorAnswer(
  400,
  'the body is not strict JSON with answer "no" alone, or "yes" with id, clientDataJSON, authenticatorData, signature in base64url; to see a question, with these four alone',
);

/** The files of the page by their paths. `npm run build:web` makes them. @throws Error if there is no page */
export function readPage(): ReadonlyMap<string, Answer> {
  const folder = path.dirname(createRequire(import.meta.url).resolve('#approve/index.html'));
  const assets = path.join(folder, 'assets');
  const names = existsSync(assets) ? readdirSync(assets).map((name) => `assets/${name}`) : [];
  return new Map(
    ['index.html', ...names].map((name) => {
      const headers = { 'Content-Type': TYPES[path.extname(name)] ?? 'application/octet-stream' };
      return [`/approve/${name}`, { status: 200, body: readFileSync(path.join(folder, name)), headers }];
    }),
  );
}

/** The route of the page on which persons say yes, for all paths below `/approve/`: see docs/spec/approval.md. None if nobody is asked. */
export function approveRows(
  { gate: { approvals }, configuration, log }: Pick<RouteContext, 'gate' | 'configuration' | 'log'>,
  page = approvals && readPage(),
): readonly (readonly [path: string, route: Route])[] {
  if (approvals === null) return [];

  const get = async ({ path: asked }: Exchange): Promise<Answer> => {
    const [, handle, isStatement] = PATH.exec(asked) ?? [];
    if (handle !== undefined && isStatement !== undefined)
      return statementOf(approvals, await approvals.questions.get(handle), null);
    return page?.get(handle === undefined ? asked : PAGE) ?? errorAnswer(404, 'there is no such file');
  };

  const post = async (exchange: Exchange, ticket: Ticket): Promise<Answer | null> => {
    const bytes = await exchange.read(BODY_BYTES, ticket);
    if (bytes === 'gone') return null;
    if (bytes === 'too_large')
      return errorAnswer(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    if (typeof bytes === 'string') return answerTo(bytes, configuration);
    const { value } = parseStrictJson(decodeUtf8(bytes) ?? '');
    const [, handle, isStatement] = PATH.exec(exchange.path) ?? [];
    if (handle === undefined) return errorAnswer(404, 'there is no question at this path');
    const read = isJsonObject(value) ? readAnswer(value, isStatement !== undefined) : null;
    if (read === null) return MALFORMED;
    const question = await approvals.questions.get(handle);
    if (isStatement !== undefined) return statementOf(approvals, question, read);
    if (question === null) return NO_QUESTION;
    const { who } = approvals.about(question.root);
    if (read === 'no') {
      if (!(await approvals.questions.deny(handle))) return NO_QUESTION;
      return json({ state: 'denied', missing: who.needed });
    }
    const said = await approvals.questions.approve(handle, read.id, read.assertion, who);
    if ('problem' in said) return errorAnswer(question.state === 'denied' ? 409 : 400, said.problem);
    return json({ state: said.value === 0 ? 'approved' : 'asked', missing: said.value });
  };

  const serve = async (exchange: Exchange, ticket: Ticket): Promise<Answer | null> => {
    const { method } = exchange;
    const origin = exchange.header('origin');
    const isForeign = origin !== null && origin !== approvals.origin;
    let answer: Answer | null = errorAnswer(403, `expected a page of the origin ${approvals.origin}`);
    try {
      if (!isForeign) answer = await (method === 'POST' ? post(exchange, ticket) : get(exchange));
    } catch (err) {
      log.error({ err }, 'a question could not be answered');
      answer = errorAnswer(503, 'the store of questions cannot tell; try again');
    }
    return answer && { ...answer, headers: { ...HEADERS, ...answer.headers } };
  };
  const rateLimit = new RateLimit(REQUESTS_PER_MINUTE, 0, 60);
  const methods = ['GET', 'HEAD', 'POST'];
  return [
    ['/approve', { endpoint: 'approve', methods, rateLimit, takesAnyOrigin: true, takesQuery: true, serve }],
  ];
}

const json = (body: object): Answer => ({ status: 200, body: JSON.stringify(body) });

/** What is asked, for the page. Of a private entry for its approvers alone. */
function statementOf(approvals: Approvals, question: Question | null, signed: Signed | 'no' | null): Answer {
  if (question === null) return NO_QUESTION;
  const { handle, statement, receipts, state, end } = question;
  const { name, isPrivate, who } = approvals.about(question.root);
  const approvers = who.approvers.map(({ name, id }) => ({ name, id }));
  // Nobody may say yes any more, and nothing says any more that it is private.
  if (approvers.length === 0) return NO_QUESTION;
  if (isPrivate) {
    const challenge = challengeToView(handle);
    if (signed === null) return json({ private: true, challenge: encodeBase64url(challenge), approvers });
    const approver = signed === 'no' ? undefined : who.approvers.find(({ id }) => id === signed.id);
    if (approver === undefined || signed === 'no')
      return errorAnswer(400, 'this passkey is not one of an approver');
    const checked = checkAssertion(signed.assertion, approver, challenge);
    if ('problem' in checked) return errorAnswer(400, checked.problem);
  }
  const yeses = countedYeses(question, who);
  const answered = missing(yeses, who) === 0 ? 'approved' : 'asked';
  return json({
    state: state === 'denied' ? 'denied' : answered,
    ends: end,
    needed: who.needed,
    said: [...new Set(yeses.map(({ approver }) => approver.name))],
    approvers,
    root_name: name,
    statement: Buffer.from(statement).toString(),
    receipts: JSON.parse(Buffer.from(receipts).toString()) as unknown,
  });
}

/** What a passkey has signed, and its id. */
interface Signed {
  readonly id: string;
  readonly assertion: Assertion;
}

/** @param isAlone whether an assertion comes without an answer: to see a question */
function readAnswer({ answer, id, ...given }: JsonObject, isAlone: boolean): Signed | 'no' | null {
  const names = Object.keys(given);
  if (!isAlone && answer === 'no' && id === undefined && names.length === 0) return 'no';
  if (answer !== (isAlone ? undefined : 'yes') || typeof id !== 'string') return null;
  const read = (text: JsonValue | undefined) => (typeof text === 'string' ? decodeBase64url(text) : null);
  const [client, data, signature] = SIGNED.map((name) => read(given[name]));
  if (!client || !data || !signature || names.length !== SIGNED.length) return null;
  const assertion = {
    clientDataJSON: Buffer.from(client),
    authenticatorData: Buffer.from(data),
    signature: Buffer.from(signature),
  };
  return { id, assertion };
}
