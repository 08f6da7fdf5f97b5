import { Buffer } from 'node:buffer';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { decodeBase64url, decodeUtf8, encodeBase64url } from '#platform';
import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../protocol/json.js';
import type { Approvals } from './approvals.js';
import { challengeToView } from './statement.js';
import { countedYeses, missing, type Question } from './steps.js';
import { checkAssertion, type Assertion } from './webauthn.js';

export const PAGE_METHODS: readonly string[] = ['GET', 'HEAD', 'POST'];
export const MAX_PAGE_BODY = 16 * 1024;

/** A request for a path below `/approve`, from any transport. */
export interface PageRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** The header `Origin`. */
  readonly origin: string | null;
  /**
   * Reads a body of at most {@link MAX_PAGE_BODY} bytes. Called before anything is waited for.
   *
   * @returns the answer in its place if it did not come; `null` if nobody waits for one
   */
  readonly read: () => Promise<Buffer | PageAnswer | null>;
}

export interface PageAnswer {
  readonly status: number;
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Closes the connection after the answer. */
  readonly closes?: boolean;
}

const HEADERS = {
  'Content-Type': 'application/json',
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

const json = (body: object, status = 200): PageAnswer => ({ status, body: JSON.stringify(body) });
const errorAnswer = (status: number, error: string): PageAnswer => json({ error }, status);
const NO_QUESTION = errorAnswer(404, 'there is no such question, or it is over');
const MALFORMED = errorAnswer(
  400,
  'the body is not strict JSON with answer "no" alone, or "yes" with id, clientDataJSON, authenticatorData, signature in base64url; to see a question, with these four alone',
);
/** In place of a body that has more. */
export const TOO_LARGE: PageAnswer = {
  ...errorAnswer(413, `the body is larger than ${MAX_PAGE_BODY} bytes`),
  closes: true,
};

/** The files of the page by their paths. `npm run build:web` makes them. @throws Error if there is no page */
export function readPage(): ReadonlyMap<string, PageAnswer> {
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

/**
 * The page on which persons say yes, for all paths below `/approve`: see docs/spec/approval.md. A transport only translates requests and
 * answers.
 *
 * @param onError called where a question could not be answered
 */
export function pageOf(approvals: Approvals, onError: (error: unknown) => void, files = readPage()) {
  const { questions } = approvals;

  const get = async (asked: string): Promise<PageAnswer> => {
    const [, handle, isStatement] = PATH.exec(asked) ?? [];
    if (handle !== undefined && isStatement !== undefined)
      return statementOf(approvals, await questions.get(handle), null);
    return files.get(handle === undefined ? asked : PAGE) ?? errorAnswer(404, 'there is no such file');
  };

  const post = async ({ path: asked, read: readBody }: PageRequest): Promise<PageAnswer | null> => {
    const bytes = await readBody();
    if (bytes === null || 'status' in bytes) return bytes;
    const { value } = parseStrictJson(decodeUtf8(bytes) ?? '');
    const [, handle, isStatement] = PATH.exec(asked) ?? [];
    if (handle === undefined) return errorAnswer(404, 'there is no question at this path');
    const read = isJsonObject(value) ? readAnswer(value, isStatement !== undefined) : null;
    if (read === null) return MALFORMED;
    const question = await questions.get(handle);
    if (isStatement !== undefined) return statementOf(approvals, question, read);
    if (question === null) return NO_QUESTION;
    const { who } = approvals.about(question.root);
    if (read === 'no') {
      if (!(await questions.deny(handle))) return NO_QUESTION;
      return json({ state: 'denied', missing: who.needed });
    }
    const said = await questions.approve(handle, read.id, read.assertion, who);
    if ('problem' in said) return errorAnswer(question.state === 'denied' ? 409 : 400, said.problem);
    return json({ state: said.value === 0 ? 'approved' : 'asked', missing: said.value });
  };

  return async (request: PageRequest): Promise<PageAnswer | null> => {
    const { method, origin } = request;
    const isForeign = origin !== null && origin !== approvals.origin;
    let answer: PageAnswer | null = errorAnswer(403, `expected a page of the origin ${approvals.origin}`);
    try {
      if (!PAGE_METHODS.includes(method)) answer = errorAnswer(405, `expected ${PAGE_METHODS.join(', ')}`);
      else if (!isForeign) answer = await (method === 'POST' ? post(request) : get(request.path));
    } catch (error) {
      onError(error);
      answer = errorAnswer(503, 'the store of questions cannot tell; try again');
    }
    return answer && { ...answer, headers: { ...HEADERS, ...answer.headers } };
  };
}

/** What is asked, for the page. Of a private entry for its approvers alone. */
function statementOf(
  approvals: Approvals,
  question: Question | null,
  signed: Signed | 'no' | null,
): PageAnswer {
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
