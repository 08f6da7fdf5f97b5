import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { readApproval } from '../../src/approval/approvers.js';
import { Questions } from '../../src/approval/questions.js';
import type { Call } from '../../src/approval/statement.js';
import { checkAssertion, type Assertion } from '../../src/approval/webauthn.js';
import type { JsonObject } from '../../src/protocol/json.js';
import type { Approvers } from '../../src/verify/approval.js';

const PAGE = fileURLToPath(new URL('../../dist/approve/', import.meta.url));

/** What is asked, on a page that Chromium can open. */
export interface RunningGate {
  readonly origin: string;
  /** Lines as `/approve/register` shows them: they say yes from now on. */
  trust(needed: number, ...lines: readonly string[]): void;
  /** Makes a call. @returns what becomes of it; of a question the address of its page */
  call(args: JsonObject): { readonly kind: string; readonly url: string };
  /** What the page gets instead, as whoever stands between would send it; `null` ends it. */
  tamper: ((answer: Record<string, unknown>) => object) | null;
  isPrivate: boolean;
  close(): Promise<void>;
}

export const CALL: Omit<Call, 'args'> = {
  tool_server: 'https://bank.example/mcp',
  root: 'did:key:z6MkrootAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
  agent: 'did:key:z6MkagentBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB',
  command: '/mcp/tools/call',
  leaf: `sha256:${'0'.repeat(64)}`,
};
const RECEIPTS = [
  {
    iss: CALL.root,
    aud: CALL.agent,
    cmd: '/mcp/tools/call',
    policy: { allowed_tools: ['transfer', 'balance'], approve_tools: ['transfer'], max_cost_usd: 500 },
    nbf: 1_790_000_000,
    exp: 1_890_000_000,
  },
];

const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
};
const TYPES: Record<string, string> = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

/** Holds questions, and serves their page. */
export async function startGate(): Promise<RunningGate> {
  const questions = new Questions();
  let who: Approvers = { approvers: [], needed: 1 };
  const answers = new Map<string, { state: string; said: string[] }>();
  const assets = readdirSync(`${PAGE}assets`);

  const statementOf = (handle: string) => {
    const question = questions.get(handle);
    if (question === null) return null;
    const { state, said } = answers.get(handle) ?? { state: 'asked', said: [] };
    const answer = {
      ...{ state, said, ends: question.end, needed: who.needed, root_name: 'alice@example.com' },
      approvers: who.approvers.map(({ name, id }) => ({ name, id })),
      statement: Buffer.from(question.statement).toString(),
      receipts: RECEIPTS,
    };
    return gate.tamper === null ? answer : gate.tamper(answer);
  };

  const respond = (method: string, path: string, body: Record<string, string>): [number, object | null] => {
    const [, handle = '', isStatement] = /^\/approve\/([\w-]+)(\/statement)?$/.exec(path) ?? [];
    if (questions.get(handle) === null) return [404, { error: 'there is no such question, or it is over' }];
    const bytes = (name: string) => Buffer.from(body[name] ?? '', 'base64url');
    const assertion: Assertion = {
      clientDataJSON: bytes('clientDataJSON'),
      authenticatorData: bytes('authenticatorData'),
      signature: bytes('signature'),
    };
    const approver = who.approvers.find(({ id }) => id === body['id']);
    if (isStatement !== undefined) {
      const approvers = who.approvers.map(({ name, id }) => ({ name, id }));
      if (!gate.isPrivate) return [200, statementOf(handle)];
      if (method === 'GET') return [200, { private: true, approvers }];
      const viewed =
        approver &&
        checkAssertion(assertion, approver, hash('sha256', `drs-approval-view:${handle}`, 'buffer'));
      return viewed !== undefined && 'value' in viewed
        ? [200, statementOf(handle)]
        : [400, { error: viewed?.problem ?? 'this passkey is not one of an approver' }];
    }
    const answer = answers.get(handle) ?? { state: 'asked', said: [] };
    answers.set(handle, answer);
    if (body['answer'] === 'no') {
      questions.deny(handle);
      answer.state = 'denied';
      return [200, { state: 'denied', missing: who.needed }];
    }
    const said = questions.approve(handle, body['id'] ?? '', assertion, who);
    if ('problem' in said) return [400, { error: said.problem }];
    answer.said.push(approver?.name ?? '');
    if (said.value === 0) answer.state = 'approved';
    return [200, { state: answer.state, missing: said.value }];
  };

  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://localhost');
    const send = (status: number, type: string, body: string) => {
      response.writeHead(status, { ...HEADERS, 'Content-Type': `${type}; charset=utf-8` }).end(body);
    };
    const asset = assets.find((name) => pathname === `/approve/assets/${name}`);
    if (asset !== undefined)
      send(200, TYPES[asset.replace(/.*\./, '')] ?? '', readFileSync(`${PAGE}assets/${asset}`, 'utf8'));
    else if (request.method === 'GET' && !pathname.endsWith('/statement'))
      send(200, 'text/html', readFileSync(`${PAGE}index.html`, 'utf8'));
    else {
      let text = '';
      request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      request.on('end', () => {
        const body = JSON.parse(text === '' ? '{}' : text) as Record<string, string>;
        const [status, answer] = respond(request.method ?? '', pathname, body);
        send(status, 'application/json', JSON.stringify(answer));
      });
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  const gate: RunningGate = {
    origin,
    tamper: null,
    isPrivate: false,
    trust: (needed, ...lines) => {
      const approvers = lines.map((line) => JSON.parse(line) as JsonObject);
      const read = readApproval(
        { approvers, needed },
        (name) => typeof name === 'string' && name !== '',
        (found, expected, ...at) => {
          throw new Error(`${at.join('.')} is ${JSON.stringify(found)}, expected ${expected}`);
        },
      );
      if (read !== null) who = read;
    },
    call: (args) => {
      const asked = questions.ask({ ...CALL, args }, who);
      if (asked.kind === 'refused') throw new Error(asked.problem);
      if (asked.kind === 'yes') asked.decided(true);
      return { kind: asked.kind, url: 'handle' in asked ? `${origin}/approve/${asked.handle}` : '' };
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
  return gate;
}
