// The MCP server that the official conformance suite calls, with the tools, resources and prompts that its scenarios name:
// 2025-11-25 with sessions, 2026-07-28 without. Everything is the SDK's own behaviour.
/* oxlint-disable typescript/no-deprecated -- the suite asks for what 2026-07-28 has replaced, too */
import { getRequestListener } from '@hono/node-server';
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createMcpHandler,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  isLegacyRequest,
  localhostAllowedHostnames,
  McpServer,
  ProtocolErrorCode,
  ResourceTemplate,
  hostHeaderValidationResponse,
  WebStandardStreamableHTTPServerTransport,
  type CallToolResult,
  type ClientCapabilities,
  type EventStore,
  type InputRequiredResult,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SOUND = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const text = (value: string) => ({ type: 'text' as const, text: value });
const image = { type: 'image' as const, data: PIXEL, mimeType: 'image/png' };
const said = (value: string): CallToolResult => ({ content: [text(value)] });
const resource = (uri: string, mimeType: string, value: string) => ({
  type: 'resource' as const,
  resource: { uri, mimeType, text: value },
});
/** A form with one member. */
const form = (message: string, name: string, type: 'string' | 'boolean') => {
  // The SDK wants one type of schema or the other, not one that may be either.
  const member = type === 'string' ? { type } : { type };
  const requestedSchema = { type: 'object' as const, properties: { [name]: member }, required: [name] };
  return inputRequired.elicit({ message, requestedSchema });
};
const sample = (question: string) =>
  inputRequired.createMessage({
    messages: [{ role: 'user', content: text(question) }],
    maxTokens: 100,
  });

/** What a client holds for a tool that asks in rounds. Sealed: it comes back from the client. */
interface State {
  readonly kind: string;
  readonly name?: string;
}
const states = createRequestStateCodec<State>({ key: randomBytes(32) });

type Responses = Record<string, Record<string, unknown> | undefined>;
type Run = (
  args: Record<string, unknown>,
  ctx: ServerContext,
) => Promise<CallToolResult | InputRequiredResult> | CallToolResult | InputRequiredResult;

const responsesOf = (ctx: ServerContext) => (ctx.mcpReq.inputResponses ?? {}) as Responses;
const textOf = (response: Record<string, unknown> | undefined) =>
  (response?.['content'] as { readonly text?: string } | undefined)?.text ?? 'no text';
const rootsOf = (response: Record<string, unknown> | undefined) =>
  (response?.['roots'] as readonly unknown[] | undefined)?.length ?? 0;
const capabilitiesOf = ({ mcpReq }: ServerContext) => {
  // The type of the SDK is empty.
  const envelope: { readonly [CLIENT_CAPABILITIES_META_KEY]?: ClientCapabilities } = mcpReq.envelope ?? {};
  return envelope[CLIENT_CAPABILITIES_META_KEY];
};
const stateOf = (ctx: ServerContext) => ctx.mcpReq.requestState<State>();

/** The server, with a session or for one request. @param changed tells the clients that listen */
function makeServer(changed: (list: 'tools' | 'prompts') => void): McpServer {
  const lasting = { ttlMs: 300_000, cacheScope: 'public' as const };
  const server = new McpServer(
    { name: 'conformance', version: '1.0.0' },
    {
      capabilities: {
        ...{ logging: {}, completions: {}, prompts: { listChanged: true }, tools: { listChanged: true } },
        resources: { subscribe: true },
      },
      requestState: { verify: (state, ctx) => states.verify(state, ctx) },
      cacheHints: {
        ...{ 'tools/list': lasting, 'prompts/list': lasting, 'resources/list': lasting },
        ...{ 'resources/templates/list': lasting, 'resources/read': lasting, 'server/discover': lasting },
      },
    },
  );
  for (const [name, run] of Object.entries(TOOLS)) {
    const inputSchema = fromJsonSchema<Record<string, unknown>>(SCHEMAS[name] ?? { type: 'object' });
    server.registerTool(name, { description: `Tests ${name}`, inputSchema }, run);
  }
  for (const list of ['tools', 'prompts'] as const)
    server.registerTool(
      `test_trigger_${list === 'tools' ? 'tool' : 'prompt'}_change`,
      { description: 'Changes a list' },
      () => {
        changed(list);
        return said('changed');
      },
    );
  addResources(server);
  addPrompts(server);
  server.server.setRequestHandler('resources/subscribe', () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', () => ({}));
  server.server.setRequestHandler('completion/complete', () => ({
    completion: { values: [], total: 0, hasMore: false },
  }));
  return server;
}

const TEXT_ARGUMENT = (name: string) => ({
  type: 'object' as const,
  properties: { [name]: { type: 'string' as const } },
  required: [name],
});
const SCHEMAS: Readonly<Record<string, Parameters<typeof fromJsonSchema>[0]>> = {
  test_sampling: TEXT_ARGUMENT('prompt'),
  test_elicitation: TEXT_ARGUMENT('message'),
  test_custom_headers: {
    type: 'object',
    // A keyword of MCP, which the type of schemas does not have.
    properties: { region: { type: 'string', ...{ 'x-mcp-header': 'Region' } } },
  },
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  },
};

const DEFAULTS = {
  name: { type: 'string' as const, default: 'John Doe' },
  age: { type: 'integer' as const, default: 30 },
  score: { type: 'number' as const, default: 95.5 },
  status: { type: 'string' as const, enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean' as const, default: true },
};
const OPTIONS = ['option1', 'option2', 'option3'];
const titled = (prefix: string) =>
  ['First', 'Second', 'Third'].map((title, at) => ({ const: `value${at + 1}`, title: `${title} ${prefix}` }));
const ENUMS = {
  untitledSingle: { type: 'string' as const, enum: OPTIONS },
  titledSingle: { type: 'string' as const, oneOf: titled('Option') },
  legacyEnum: {
    type: 'string' as const,
    enum: ['opt1', 'opt2', 'opt3'],
    enumNames: ['Option One', 'Option Two', 'Option Three'],
  },
  untitledMulti: { type: 'array' as const, items: { type: 'string' as const, enum: OPTIONS } },
  titledMulti: { type: 'array' as const, items: { anyOf: titled('Choice') } },
};

/** Asks the person at the client, as versions before 2026-07-28 do. */
async function ask(ctx: ServerContext, message: string, properties: object): Promise<CallToolResult> {
  const requestedSchema = { type: 'object' as const, properties: properties as typeof DEFAULTS };
  const { action, content } = await ctx.mcpReq.elicitInput({ message, requestedSchema });
  return said(`action=${action}, content=${JSON.stringify(content ?? {})}`);
}

async function notify(ctx: ServerContext, progress: number): Promise<void> {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  const params = { progressToken, progress, total: 100, message: `step ${progress} of 100` };
  await ctx.mcpReq.notify({ method: 'notifications/progress', params });
}

const TOOLS: Readonly<Record<string, Run>> = {
  test_simple_text: () => said('This is a simple text response for testing.'),
  test_image_content: () => ({ content: [image] }),
  test_audio_content: () => ({ content: [{ type: 'audio', data: SOUND, mimeType: 'audio/wav' }] }),
  test_embedded_resource: () => ({
    content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  }),
  test_multiple_content_types: () => ({
    content: [
      ...[text('Multiple content types test:'), image],
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  }),
  test_tool_with_logging: async (_, ctx) => {
    for (const step of ['started', 'processing', 'completed']) await ctx.mcpReq.log('info', `Tool ${step}`);
    return said('Tool with logging executed successfully');
  },
  test_logging_tool: async (_, ctx) => {
    await ctx.mcpReq.log('info', 'a line');
    return said('logged');
  },
  test_tool_with_progress: async (_, ctx) => {
    for (const progress of [0, 50, 100]) await notify(ctx, progress);
    return said(String(ctx.mcpReq._meta?.progressToken ?? 'none'));
  },
  test_streaming_elicitation: async (_, ctx) => {
    await notify(ctx, 50);
    return said('Streaming complete');
  },
  test_error_handling: () => {
    throw new Error('This tool intentionally returns an error for testing');
  },
  test_reconnection: (_, ctx) => {
    ctx.http?.closeSSE?.();
    return said('Reconnection test completed successfully.');
  },
  test_sampling: async ({ prompt }, ctx) => {
    const messages = [{ role: 'user' as const, content: text(String(prompt)) }];
    const { content } = await ctx.mcpReq.requestSampling({ messages, maxTokens: 100 });
    return said(`LLM response: ${'text' in content ? content.text : 'none'}`);
  },
  test_elicitation: ({ message }, ctx) => ask(ctx, String(message), { response: { type: 'string' } }),
  test_elicitation_sep1034_defaults: (_, ctx) => ask(ctx, 'Please review the form', DEFAULTS),
  test_elicitation_sep1330_enums: (_, ctx) => ask(ctx, 'Please select', ENUMS),
  json_schema_2020_12_tool: (args) => said(JSON.stringify(args)),
  test_custom_headers: ({ region }) => said(`region ${String(region)}`),
  test_missing_capability: (_, ctx) =>
    capabilitiesOf(ctx)?.sampling === undefined
      ? // The SDK refuses it: the client did not say that it can.
        inputRequired({ inputRequests: { sample_request: sample('Can you?') } })
      : said('Success'),
  test_input_required_result_elicitation: (_, ctx) => {
    const given = acceptedContent<{ name: string }>(responsesOf(ctx), 'user_name');
    return given === undefined
      ? inputRequired({ inputRequests: { user_name: form('What is your name?', 'name', 'string') } })
      : said(`Hello, ${given.name}!`);
  },
  test_input_required_result_sampling: (_, ctx) => {
    const given = responsesOf(ctx)['sample_request'];
    return given === undefined
      ? inputRequired({ inputRequests: { sample_request: sample('What is the capital of France?') } })
      : said(`Sampling result: ${textOf(given)}`);
  },
  test_input_required_result_list_roots: (_, ctx) => {
    const given = responsesOf(ctx)['roots_request'];
    return given === undefined
      ? inputRequired({ inputRequests: { roots_request: inputRequired.listRoots() } })
      : said(`Found ${rootsOf(given)} root(s)`);
  },
  test_input_required_result_request_state: (_, ctx) => confirm(ctx, 'state-ok: requestState validated'),
  test_input_required_result_tampered_state: (_, ctx) => confirm(ctx, 'integrity-ok: state verified'),
  test_input_required_result_multiple_inputs: async (_, ctx) => {
    const { user_name: name, greeting, client_roots: roots } = responsesOf(ctx);
    if (stateOf(ctx) !== undefined && name !== undefined && greeting !== undefined && roots !== undefined)
      return said(`Name: ${JSON.stringify(name)}; Greeting: ${textOf(greeting)}; Roots: ${rootsOf(roots)}`);
    return inputRequired({
      inputRequests: {
        user_name: form('What is your name?', 'name', 'string'),
        greeting: sample('Generate a greeting'),
        client_roots: inputRequired.listRoots(),
      },
      requestState: await states.mint({ kind: 'inputs' }, ctx),
    });
  },
  test_input_required_result_multi_round: async (_, ctx) => {
    const [state, responses] = [stateOf(ctx), responsesOf(ctx)];
    const name = acceptedContent<{ name: string }>(responses, 'step1')?.name;
    const color = acceptedContent<{ color: string }>(responses, 'step2')?.color;
    if (state?.kind === 'second' && color !== undefined)
      return said(`Multi-round complete for ${state.name} who likes ${color}`);
    const isSecond = state?.kind === 'first' && name !== undefined;
    return inputRequired({
      inputRequests: isSecond
        ? { step2: form('What is your favorite color?', 'color', 'string') }
        : { step1: form('What is your name?', 'name', 'string') },
      requestState: await states.mint(isSecond ? { kind: 'second', name } : { kind: 'first' }, ctx),
    });
  },
  test_input_required_result_capabilities: (_, ctx) => {
    const given = Object.keys(responsesOf(ctx));
    if (given.length > 0) return said(`capabilities-ok: received ${given.join(',')}`);
    const can = capabilitiesOf(ctx);
    const inputRequests = {
      ...(can?.elicitation && { elicit_input: form('Elicitation input', 'value', 'string') }),
      ...(can?.sampling && { sample_input: sample('Sample request') }),
    };
    return Object.keys(inputRequests).length === 0 ? said('nothing') : inputRequired({ inputRequests });
  },
};

async function confirm(ctx: ServerContext, what: string): Promise<CallToolResult | InputRequiredResult> {
  const given = acceptedContent<{ ok: boolean }>(responsesOf(ctx), 'confirm');
  if (stateOf(ctx)?.kind === 'confirm' && given?.ok === true) return said(what);
  return inputRequired({
    inputRequests: { confirm: form('Please confirm', 'ok', 'boolean') },
    requestState: await states.mint({ kind: 'confirm' }, ctx),
  });
}

function addResources(server: McpServer): void {
  const plain = (uri: string, value: string) =>
    server.registerResource(uri, uri, { mimeType: 'text/plain' }, () => ({
      contents: [{ uri, mimeType: 'text/plain', text: value }],
    }));
  plain('test://static-text', 'This is the content of the static text resource.');
  plain('test://watched-resource', 'Watched resource content');
  const binary = 'test://static-binary';
  server.registerResource(binary, binary, { mimeType: 'image/png' }, () => ({
    contents: [{ uri: binary, mimeType: 'image/png', blob: PIXEL }],
  }));
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined });
  server.registerResource('template', template, { mimeType: 'application/json' }, (uri, { id }) => ({
    contents: [
      { uri: uri.href, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true }) },
    ],
  }));
}

function addPrompts(server: McpServer): void {
  const user = <Content>(content: Content) => ({ role: 'user' as const, content });
  const strings = (...names: string[]) =>
    fromJsonSchema<Record<string, string>>({
      type: 'object',
      properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
      required: names,
    });
  server.registerPrompt('test_simple_prompt', { description: 'A prompt' }, () => ({
    messages: [user(text('This is a simple prompt for testing.'))],
  }));
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'A prompt', argsSchema: strings('arg1', 'arg2') },
    (args) => ({
      messages: [user(text(`Prompt with arguments: arg1='${args['arg1']}', arg2='${args['arg2']}'`))],
    }),
  );
  const embedding = { description: 'A prompt', argsSchema: strings('resourceUri') };
  server.registerPrompt('test_prompt_with_embedded_resource', embedding, ({ resourceUri = '' }) => ({
    messages: [
      user(resource(resourceUri, 'text/plain', 'Embedded resource content for testing.')),
      user(text('Please process the embedded resource above.')),
    ],
  }));
  server.registerPrompt('test_prompt_with_image', { description: 'A prompt' }, () => ({
    messages: [user(image), user(text('Please analyze the image above.'))],
  }));
  server.registerPrompt('test_input_required_result_prompt', { description: 'A prompt' }, (ctx) => {
    const given = acceptedContent<{ context: string }>(responsesOf(ctx), 'user_context');
    return given === undefined
      ? inputRequired({ inputRequests: { user_context: form('What context?', 'context', 'string') } })
      : { messages: [user(text(`Prompt with context: ${given.context}`))] };
  });
}

/** Keeps the events of a session, so that a client can read on after its last one. */
class Events implements EventStore {
  readonly #events: { id: string; streamId: string; message: unknown }[] = [];

  storeEvent(streamId: string, message: unknown): Promise<string> {
    const id = String(this.#events.length + 1);
    this.#events.push({ id, streamId, message });
    return Promise.resolve(id);
  }

  getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return Promise.resolve(this.#events[Number(eventId) - 1]?.streamId);
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (id: string, message: never) => Promise<void> },
  ): Promise<string> {
    const { streamId = '' } = this.#events[Number(lastEventId) - 1] ?? {};
    for (const event of this.#events.slice(Number(lastEventId)))
      if (event.streamId === streamId) await send(event.id, event.message as never);
    return streamId;
  }
}

/** Starts the server. @returns its URL, and what ends it */
export async function startServer(): Promise<{ readonly url: string; readonly close: () => void }> {
  const modern = createMcpHandler(() => makeServer(changed), { legacy: 'reject' });
  const changed = (list: 'tools' | 'prompts') =>
    list === 'tools' ? modern.notify.toolsChanged() : modern.notify.promptsChanged();
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const serve = async (request: Request): Promise<Response> => {
    const foreign = hostHeaderValidationResponse(request, localhostAllowedHostnames());
    if (foreign !== undefined) return foreign;
    if (!(await isLegacyRequest(request))) return modern.fetch(request);
    const id = request.headers.get('mcp-session-id');
    const known = id === null ? undefined : sessions.get(id);
    if (known !== undefined) return known.handleRequest(request);
    if (id !== null) {
      const error = { code: ProtocolErrorCode.InvalidRequest, message: 'no such session' };
      return Response.json({ jsonrpc: '2.0', id: null, error }, { status: 404 });
    }
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: new Events(),
      onsessioninitialized: (session) => void sessions.set(session, transport),
      onsessionclosed: (session) => void sessions.delete(session),
    });
    await makeServer(() => undefined).connect(transport);
    return transport.handleRequest(request);
  };
  const listener = getRequestListener(serve);
  const server = createServer((req, res) => void listener(req, res)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}/mcp`, close };
}
