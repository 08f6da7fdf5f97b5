import { DrsClient, DrsClientError } from '../client/index.js';
import { OptionsError } from '../verifier/options.js';
import type { Protocol } from '../gate/codes.js';
import type { GateContext } from '../gate/context.js';
import { bindOptionsOf, decide, frozenContextOf, judgedOf, type Allowance } from '../gate/decide.js';
import { openRequest } from '../gate/open.js';
import type { Denial, PendingCall } from '../gate/request.js';
import { NEW, useInvocation, type ReplayStore } from '../usage/index.js';
import { readConfiguration, type Configuration } from '../service/configuration/configuration.js';
import { readGateRequest } from '../service/routes/gate-api-route.js';
import { openingRulesOf, ServedRoutes } from '../service/routes/served-routes.js';
import { CommandError } from './command-error.js';
import { serviceAddress } from './service.js';

/** The decision of a gate on one request. */
export type GateDecision =
  { readonly kind: 'pass' } | (Allowance & { readonly context: GateContext }) | Denial;

/**
 * Decides on a request as a gate does. The service at `DRS_VERIFY_URL` verifies the chain; everything else is decided
 * here, with the functions of the gate. A single run has no record of used invocations: their age is checked, not
 * whether one was used.
 *
 * @param text the JSON of a request to `POST /v1/gate`, which may leave `protocol` out
 * @param file its name, for errors
 * @param toolServer what `tool_server` must be; `null`: what the service says
 * @throws CommandError if the file describes no request, or the service gives no verdict
 */
export async function decideOnRequest(
  protocol: Protocol,
  text: string,
  file: string,
  toolServer: string | null = null,
): Promise<GateDecision> {
  const settings = readSettings();
  const read = readGateRequest(Buffer.from(text), protocol);
  if ('error' in read)
    throw new CommandError(
      `${file} does not describe a request: ${read.detail}`,
      'give the JSON of POST /v1/gate: { "method", "path", "headers", "body" or "body_text" }',
    );
  if (read.protocol !== protocol)
    throw new CommandError(
      `${file} describes a request over ${read.protocol}, expected ${protocol}`,
      `use --gate ${read.protocol}, or leave "protocol" out of the file`,
    );
  const opened = openRequest(protocol, read.request, openingRulesOf(settings, readRoutes(settings)));
  if (opened.kind !== 'check') return opened;
  const { replayWindowSecs: windowSecs, clockSkewSecs } = settings;
  const decided = await decide(opened, {
    now: () => Math.floor(Date.now() / 1000),
    // Roots are the service's to check, and the tool server, if nothing is said here.
    rules: { trustedRoots: null, serverIdentity: toolServer, bindingMode: 'enforced' },
    judge: async (call) => judgedOf(call, await askService(call)),
    use: (claims, _, now) =>
      useInvocation(claims, [], NO_RECORD, now, { scope: 'gate', windowSecs, clockSkewSecs }),
  });
  if (decided.kind === 'deny') return decided;
  return { ...decided, context: frozenContextOf(decided.chain, decided.context) };
}

const NO_RECORD: ReplayStore = {
  use: () => Promise.resolve(NEW),
  usageOf: () => Promise.resolve(null),
  unreadyReason: null,
  close: () => Promise.resolve(),
};

const VARIABLES = [
  ...['GATE_PASS_METHODS', 'GATE_METHODS', 'GATE_ROUTES'],
  ...['REPLAY_WINDOW_SECS', 'CLOCK_SKEW_SECS'],
];

/** Reads the settings of a gate from the variables that the service has. */
function readSettings(): Configuration {
  try {
    return readConfiguration(Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]])));
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    throw new CommandError(error.message, 'set the variable as for the service, or unset it');
  }
}

function readRoutes({ gateRoutes }: Configuration) {
  try {
    return ServedRoutes.read(gateRoutes);
  } catch (error) {
    throw new CommandError((error as Error).message, 'correct the file');
  }
}

async function askService(call: PendingCall) {
  const client = new DrsClient(serviceAddress());
  try {
    return await client.verify(call.bundle, { ...bindOptionsOf(call.body), details: true });
  } catch (error) {
    if (!(error instanceof DrsClientError)) throw error;
    throw new CommandError(
      `no verdict from the service: ${error.message}`,
      'start it with `npx drs-verify serve`, or set DRS_VERIFY_URL to where it runs',
    );
  } finally {
    await client.close();
  }
}
