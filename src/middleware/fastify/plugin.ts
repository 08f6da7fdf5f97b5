import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Readable } from 'node:stream';
import type { Denial } from '../../gate/request.js';
import { responseTo } from '../../gate/response.js';
import { runWithContext, setContext, type DrsContext } from '../context.js';
import { Guard, type AdmittedCall } from '../guard.js';
import { headOf, outcomeOf, peekBody, presentAsJson } from '../node.js';
import { type CheckedRoute, checkProtection, type MiddlewareOptions, ROUTE_OR_NEXT } from '../options.js';
import { DrsRefusalError } from '../refusal-error.js';
import { openRoute } from '../route.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The verified call, in the scope of `drsFastify`; `null` if it let a request without a bundle pass. */
    drs: DrsContext | null;
  }
}

/** Options of {@link drsFastify}. */
export type FastifyMiddlewareOptions = MiddlewareOptions<FastifyRequest> & {
  /** `next` throws a refusal as a `DrsRefusalError`, for `setErrorHandler`; default `answer`. */
  readonly errors?: 'answer' | 'next';
};

/**
 * A Fastify plugin that lets only verified calls reach the routes of the scope in which it is registered, and of the
 * scopes in it. Routes outside are not touched: encapsulate what is protected.
 *
 * @throws TypeError (the registration fails) naming every problem with the options
 * @example
 * app.register(async (tools) => {
 *   await tools.register(drsFastify, { verifier, trustedRoots, serverIdentity, replayStore, tool: 'weather' });
 *   tools.post('/weather', (request) => forecast(request.body.city, request.drs.agent));
 * });
 */
export function drsFastify(
  fastify: FastifyInstance,
  registered: FastifyMiddlewareOptions,
  done: (error?: Error) => void,
): void {
  let options: FastifyMiddlewareOptions & CheckedRoute<FastifyRequest>;
  try {
    options = checkProtection(withoutFastifys(registered), ROUTE_OR_NEXT);
  } catch (error) {
    done(error as Error);
    return;
  }
  const guard = new Guard('http', options);
  const admissions = new WeakMap<object, AdmittedCall>();
  if (!fastify.hasRequestDecorator('drs')) fastify.decorateRequest('drs', null);

  // Before the body is parsed, because the gate compares the body as it was sent.
  fastify.addHook('preParsing', async (request, reply, payload) => {
    const { opened, body } = await open(request, payload, options);
    const decision = await guard.admit(opened);
    if (decision.kind === 'deny') {
      if (options.errors === 'next') throw new DrsRefusalError(decision);
      await answer(reply, decision);
      return;
    }
    request.drs = decision.kind === 'allow' ? decision.context : null;
    setContext(request.drs, request);
    if (decision.kind === 'allow') {
      admissions.set(request, decision);
      // A caller that hangs up gets no `onResponse`.
      reply.raw.once('close', () => decision.finish(outcomeOf(reply.raw)));
    }
    return body ?? payload;
  });
  // Fastify leaves the asynchronous context between parsing and handler.
  fastify.addHook('preHandler', (request, _reply, next) => runWithContext(request.drs, request.raw, next));
  fastify.addHook('onResponse', (request, reply, next) => {
    admissions.get(request)?.finish(reply.statusCode >= 400 ? 'error' : 'ok');
    next();
  });
  done();
}

// The mark that fastify-plugin sets: the hooks apply to the scope that registers the plugin, not to a new scope.
Object.assign(drsFastify, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'drs-verify',
});

/** The options, without those that Fastify itself reads. */
function withoutFastifys(registered: FastifyMiddlewareOptions): FastifyMiddlewareOptions {
  const fastifys = new Set(['prefix', 'logLevel', 'logSerializers']);
  return Object.fromEntries(
    Object.entries(registered).filter(([name]) => !fastifys.has(name)),
  ) as unknown as FastifyMiddlewareOptions;
}

async function open(
  request: FastifyRequest,
  payload: NodeJS.ReadableStream,
  options: CheckedRoute<FastifyRequest>,
) {
  const { raw } = request;
  let body: Readable | undefined;
  const opened = await openRoute(headOf(raw), request.params, options, request, {
    // Another hook may have put another stream in its place.
    read: () => peekBody(raw, payload as Readable, options.maxBodyBytes),
    replace: (json) => {
      const bytes = Buffer.from(json);
      body = again(bytes);
      presentAsJson(raw, bytes.length);
    },
  });
  if (opened === 'gone') throw new Error('the client has gone before its body was read');
  return { opened, body };
}

/** Another body for Fastify's parser, which compares `receivedEncodedLength` with `Content-Length`. */
function again(bytes: Buffer): Readable {
  return Object.assign(Readable.from(bytes, { objectMode: false }), { receivedEncodedLength: bytes.length });
}

async function answer(reply: FastifyReply, denial: Denial): Promise<void> {
  const { status, headers, body } = responseTo(denial);
  // Close the connection: the rest of the body would be read to its end, or be taken for the next request.
  if (status === 413) void reply.header('connection', 'close');
  await reply.code(status).headers(headers).send(JSON.stringify(body));
}
