import type { Exchange } from '../workload/chains.js';
import { Connection, toRequest } from './connection.js';

const CONNECTIONS = 8;

/** The pause before a refused request is sent again, and how often it is sent again. */
const RETRY_MS = 50;
const MAX_RETRIES = 100;

/** Answers that were not the right ones. */
export interface Check {
  readonly wrong: number;
  readonly firstWrong: string;
}

/**
 * Sends each request once, on a few connections, and compares the answers exactly. This also fills the cache with the
 * receipts and warms up the code.
 *
 * @param mayRefuse whether a request that is answered with 503 is sent again: a service that sheds load may refuse
 *   while its code is still being compiled. Otherwise a 503 is a wrong answer.
 */
export async function checkAnswers(
  port: number,
  exchanges: readonly Exchange[],
  mayRefuse = false,
): Promise<Check> {
  let next = 0;
  let wrong = 0;
  let firstWrong = '';
  const blame = (reason: string) => {
    wrong++;
    firstWrong ||= reason;
  };
  const share = async () => {
    let end: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    let retries = 0;
    const sendNext = (connection: Connection<Exchange>) => {
      const exchange = exchanges[next++];
      retries = 0;
      if (exchange !== undefined) connection.send(toRequest(exchange.body), exchange);
      else {
        connection.close();
        end();
      }
    };
    const connection = await Connection.open<Exchange>(port, {
      answered: (exchange, status, body, connection) => {
        if (mayRefuse && status === 503 && retries++ < MAX_RETRIES) {
          setTimeout(() => connection.send(toRequest(exchange.body), exchange), RETRY_MS);
          return;
        }
        const { answer } = exchange;
        if (status !== 200 || body !== answer)
          blame(`${status} ${body.slice(0, 300)}, expected 200 ${answer.slice(0, 300)}`);
        sendNext(connection);
      },
      broken: (_, reason) => {
        blame(reason);
        end();
      },
    });
    sendNext(connection);
    await ended;
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, share));
  return { wrong, firstWrong };
}
