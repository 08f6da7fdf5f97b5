import { bodyOfBytes, type CallBody } from './call-body.js';
import { runWithContext } from './context.js';
import { Gate } from './gate.js';
import { bodyRulesOf, type MiddlewareOptions } from './options.js';
import { BUNDLE_HEADER, bodyTooLarge, type Refusal } from './refusal.js';

/** A handler of web-standard requests; `rest` is what its framework passes beside the request. */
export type FetchHandler<Rest extends unknown[]> = (
  request: Request,
  ...rest: Rest
) => Response | Promise<Response>;

/**
 * Lets only verified calls reach a handler of web-standard requests: Hono, Next, Deno, and workers where the verifier
 * is remote. Same options and answers as `drsMiddleware`.
 *
 * @returns a handler of the same shape; the inner one finds the call with `drsContext()` or `drsContext(request)`
 * @throws TypeError where the options contradict each other
 * @example
 * export const POST = drsFetch({ verifyUrl: 'http://127.0.0.1:8080' }, async (request) => {
 *   return Response.json(run(await request.json(), drsContext().root_principal));
 * });
 */
export function drsFetch<Rest extends unknown[] = []>(
  options: MiddlewareOptions,
  handler: FetchHandler<Rest>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  const gate = new Gate(options);
  const { bindingMode, maxBodyBytes } = bodyRulesOf(options);
  return async (request, ...rest) => {
    const opened = gate.open(request.headers.get(BUNDLE_HEADER));
    if (opened.kind === 'absent') return runWithContext(null, request, () => handler(request, ...rest));
    if (opened.kind === 'refused') return answer(opened.refusal);
    const body: CallBody | null =
      bindingMode === 'off' ? { kind: 'unread' } : await bodyOf(request, maxBodyBytes);
    if (body === null) return answer(bodyTooLarge(maxBodyBytes));
    const judged = await gate.judge(opened, body, bindingMode);
    if (judged.kind === 'refused') return answer(judged.refusal);
    try {
      return await runWithContext(judged.context, request, () => handler(request, ...rest));
    } finally {
      gate.publish(judged);
    }
  };
}

/** Reads a copy of the body, so that the request stays as it came, of whatever class; `null` where it is too large. */
async function bodyOf(request: Request, most: number): Promise<CallBody | null> {
  if (request.bodyUsed) {
    throw new Error('the request body was read before drsFetch() could see it: hand the request in unread');
  }
  if (Number(request.headers.get('content-length')) > most) return null;
  const bytes = await readAtMost(request.clone().body, most);
  return (
    bytes &&
    bodyOfBytes(bytes, {
      contentType: request.headers.get('content-type'),
      contentEncoding: request.headers.get('content-encoding'),
    })
  );
}

async function readAtMost(stream: ReadableStream<Uint8Array> | null, most: number): Promise<Buffer | null> {
  const chunks: Uint8Array[] = [];
  if (stream === null) return Buffer.alloc(0);
  let size = 0;
  // Leaving the loop cancels the stream.
  for await (const chunk of stream) {
    size += chunk.byteLength;
    if (size > most) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

function answer({ status, body }: Refusal): Response {
  return Response.json(body, {
    status,
    ...(status === 401 ? { headers: { 'WWW-Authenticate': 'DRS' } } : {}),
  });
}
