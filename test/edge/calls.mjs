// What runs in each runtime: delegations and calls by a key that cannot be read, judged by a service.
import { DrsClient } from 'drs-verify/client';
import {
  createBundle,
  createConsent,
  generateKey,
  issueInvocation,
  issueRootDelegation,
  issueSubDelegation,
  webCryptoSigner,
} from 'drs-verify/issue';
import { createMemoryReplayStore, drsContext, drsFetch, signFetch } from 'drs-verify/middleware';

const TOOL_SERVER = 'https://tools.example';
// No test depends on speed.
// The page is at a name of its own.
const PATIENT = { timeoutMs: 60_000, allowHttp: true };

const newSigner = async () =>
  webCryptoSigner(
    /** @type {Parameters<typeof webCryptoSigner>[0]} */ (
      await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify'])
    ),
  );

/** @param {() => unknown} action */
async function codeOf(action) {
  try {
    await action();
    return 'done';
  } catch (error) {
    const { code, message } = /** @type {{ code?: string, message: string }} */ (error);
    return code ?? message;
  }
}

/**
 * @param {string} service the address of a service
 * @param {string} redirecting an address that leads to it
 */
export async function runCalls(service, redirecting) {
  const [alice, bot, helper] = [await newSigner(), await newSigner(), await newSigner()];
  const root = await issueRootDelegation({
    key: alice,
    audience: bot.did,
    command: '/tools',
    policy: { allowed_tools: ['search', 'fetch'] },
    consent: createConsent({ text: 'Zürich 🫖', locale: 'en', method: 'explicit-ui-click' }),
  });
  const limited = { key: bot, chain: [root], audience: helper.did, policy: { allowed_tools: ['search'] } };
  const chain = [root, await issueSubDelegation(limited)];
  const delegation = { key: helper, chain, toolServer: TOOL_SERVER };
  const args = { tool: 'search', query: 'tea 🫖' };
  const bundle = createBundle({
    receipts: chain,
    invocation: await issueInvocation({ ...delegation, args }),
  });

  const client = new DrsClient(service, PATIENT);
  const ask = async (/** @type {object} */ body) => {
    const verdict = await client.verify(bundle, { body });
    return verdict.valid
      ? [verdict.context.root_principal === alice.did, verdict.binding]
      : verdict.error.code;
  };
  // In one turn, and so in one exchange where calls share one.
  const [matching, changed] = await Promise.all([ask(args), ask({ tool: 'search', query: 'gold' })]);
  const redirected = new DrsClient(redirecting, { ...PATIENT, retries: 0 });

  const options = {
    ...(service.startsWith('http://127.') ? { verifyUrl: service } : { verifier: client }),
    trustedRoots: [alice.did],
    serverIdentity: TOOL_SERVER,
    replayStore: createMemoryReplayStore(),
    tool: 'search',
  };
  const serve = drsFetch(options, async (request) =>
    Response.json({ isAlice: drsContext(request).root_principal === alice.did, got: await request.json() }),
  );
  const call = signFetch(delegation, { fetch: (input, init) => serve(new Request(input, init)) });
  const post = (/** @type {object} */ body) =>
    call(`${TOOL_SERVER}/search`, { method: 'POST', body: JSON.stringify(body) });
  const plain = await serve(new Request(`${TOOL_SERVER}/search`, { method: 'POST', body: '{}' }));
  const refusal = /** @type {{ error: { code: string } }} */ (await plain.json());

  return {
    matching,
    changed,
    redirected: await codeOf(() => redirected.verify(bundle)),
    escalation: await codeOf(() => issueSubDelegation({ ...limited, policy: {} })),
    notMine: await codeOf(() => issueInvocation({ ...delegation, key: bot, args })),
    otherKey: await codeOf(() =>
      issueInvocation({
        ...delegation,
        key: { did: helper.did, sign: (/** @type {Uint8Array} */ bytes) => bot.sign(bytes) },
        args,
      }),
    ),
    memoryKey: await codeOf(() => generateKey()),
    served: await (await post(args)).json(),
    refused: await codeOf(() => post({ tool: 'fetch' })),
    unsigned: [plain.status, refusal.error.code],
  };
}
