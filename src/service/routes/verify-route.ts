import { WorkDropped } from '../../signatures/signature-verifier.js';
import { parseBundleText } from '../../verify/receipt-cache.js';
import { asksForDetails, toVerdictJson } from '../../verifier/verdict.js';
import { answerTo, readJson, type BodyHandler, type Fault } from '../http/body-handler.js';
import { errorAnswer } from '../http/exchange.js';
import type { RouteContext } from '../core.js';

/** `POST /verify`: answers a body, or each line of a batch, with a verdict. */
export function verdictHandler({ engine, metrics, verdicts, log, configuration }: RouteContext): BodyHandler {
  const refuse = (fault: Fault) => {
    metrics.countRejection('verify', fault);
    return answerTo(fault, configuration);
  };
  return {
    maxBytes: configuration.maxBodyBytes,
    /** After every error the answer is an error, never a verdict. */
    answer: async (asked, body, ticket) => {
      try {
        const read = readJson(body, (text) => parseBundleText(text, engine.cache));
        if (read.fault !== undefined) {
          metrics.countRejection('verify', read.fault);
          return errorAnswer(read.fault === 'too_large' ? 413 : 400, read.error);
        }
        const { bundle } = read.parsed;
        const startedAt = performance.now();
        const outcome = await engine.verify({
          bundle,
          body: read.parsed.body,
          isWanted: () => !asked.isOver,
          mayWait: () => ticket.park(),
        });
        metrics.countOutcome(outcome, startedAt);
        verdicts.record(asked, outcome, bundle);
        return { status: 200, body: toVerdictJson(outcome, asksForDetails(bundle)) };
      } catch (error) {
        if (error instanceof WorkDropped) return null;
        log.error({ err: error }, 'a request failed inside the service');
        metrics.countRejection('verify', 'internal');
        return errorAnswer(500, 'internal');
      }
    },
    refuse: (_, fault) => refuse(fault),
    overloaded: () => refuse('overloaded'),
  };
}
