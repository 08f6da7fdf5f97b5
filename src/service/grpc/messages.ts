import protobuf from 'protobufjs/light.js';
import type { INamespace } from 'protobufjs';

/**
 * The messages of Envoy's `Authorization`, agentgateway's `ExtMcp` and `grpc.health.v1`, with the fields that are read
 * and written here. All other fields are skipped. Two kinds of field are declared in another way than in the originals;
 * their bytes on the wire are the same:
 *
 * - a map is declared as a list of entries, so that a repeated key is seen;
 * - a text that is checked is declared as bytes: the library would replace bytes that are not UTF-8.
 */
const SCHEMA: INamespace = {
  nested: {
    CheckRequest: { fields: { attributes: { type: 'AttributeContext', id: 1 } } },
    AttributeContext: {
      fields: {
        request: { type: 'AttributeRequest', id: 4 },
        contextExtensions: { rule: 'repeated', type: 'Header', id: 10 },
      },
    },
    AttributeRequest: { fields: { http: { type: 'HttpRequest', id: 2 } } },
    HttpRequest: {
      fields: {
        method: { type: 'string', id: 2 },
        headers: { rule: 'repeated', type: 'Header', id: 3 },
        path: { type: 'string', id: 4 },
        query: { type: 'string', id: 7 },
        body: { type: 'bytes', id: 11 },
        rawBody: { type: 'bytes', id: 12 },
        headerMap: { type: 'HeaderMap', id: 13 },
      },
    },
    HeaderMap: { fields: { headers: { rule: 'repeated', type: 'Header', id: 1 } } },
    Header: {
      fields: {
        key: { type: 'string', id: 1 },
        value: { type: 'bytes', id: 2 },
        rawValue: { type: 'bytes', id: 3 },
      },
    },

    CheckResponse: {
      fields: {
        status: { type: 'Status', id: 1 },
        deniedResponse: { type: 'DeniedHttpResponse', id: 2 },
        okResponse: { type: 'OkHttpResponse', id: 3 },
        dynamicMetadata: { type: 'Struct', id: 4 },
      },
    },
    Status: { fields: { code: { type: 'int32', id: 1 }, message: { type: 'string', id: 2 } } },
    DeniedHttpResponse: {
      fields: {
        status: { type: 'HttpStatus', id: 1 },
        headers: { rule: 'repeated', type: 'HeaderOption', id: 2 },
        body: { type: 'string', id: 3 },
      },
    },
    HttpStatus: { fields: { code: { type: 'int32', id: 1 } } },
    OkHttpResponse: {
      fields: {
        headers: { rule: 'repeated', type: 'HeaderOption', id: 2 },
        headersToRemove: { rule: 'repeated', type: 'string', id: 5 },
      },
    },
    HeaderOption: {
      fields: {
        header: { type: 'Header', id: 1 },
        append: { type: 'BoolValue', id: 2 },
        appendAction: { type: 'int32', id: 3 },
      },
    },
    BoolValue: { fields: { value: { type: 'bool', id: 1 } } },

    McpRequest: {
      fields: {
        method: { type: 'string', id: 2 },
        mcpRequest: { type: 'bytes', id: 4 },
        headers: { rule: 'repeated', type: 'Header', id: 5 },
      },
    },
    McpRequestResult: {
      fields: {
        pass: { type: 'Empty', id: 1 },
        error: { type: 'AuthorizationError', id: 3 },
        headerMutation: { type: 'HeaderMutation', id: 4 },
        metadata: { type: 'Struct', id: 5 },
      },
    },
    McpResponseResult: { fields: { pass: { type: 'Empty', id: 1 } } },
    AuthorizationError: {
      fields: {
        code: { type: 'int32', id: 1 },
        reason: { type: 'string', id: 2 },
        mcpError: { type: 'bytes', id: 3 },
      },
    },
    HeaderMutation: {
      fields: {
        set: { rule: 'repeated', type: 'Header', id: 1 },
        remove: { rule: 'repeated', type: 'string', id: 2 },
      },
    },

    HealthCheckRequest: { fields: { service: { type: 'string', id: 1 } } },
    HealthCheckResponse: { fields: { status: { type: 'int32', id: 1 } } },

    Empty: { fields: {} },
    Struct: { fields: { fields: { rule: 'repeated', type: 'StructField', id: 1 } } },
    StructField: { fields: { key: { type: 'string', id: 1 }, value: { type: 'Value', id: 2 } } },
    Value: {
      fields: {
        nullValue: { type: 'int32', id: 1 },
        numberValue: { type: 'double', id: 2 },
        stringValue: { type: 'string', id: 3 },
        boolValue: { type: 'bool', id: 4 },
        structValue: { type: 'Struct', id: 5 },
        listValue: { type: 'ListValue', id: 6 },
      },
    },
    ListValue: { fields: { values: { rule: 'repeated', type: 'Value', id: 1 } } },
  },
};

/** What a question may hold besides the body, such as headers. HTTP has the same limit on headers. */
export const BESIDES_BYTES = 64 * 1024;

/** A header as a gateway sends it: the value is in `rawValue` if the gateway sends bytes, else in `value`. */
export interface WireHeader {
  readonly key: string;
  readonly value: Uint8Array;
  readonly rawValue?: Uint8Array;
}

/** `envoy.service.auth.v3.CheckRequest`. Members that the sender leaves out are empty or missing. */
export interface CheckRequest {
  readonly attributes?: {
    readonly request?: {
      readonly http?: {
        readonly method: string;
        readonly path: string;
        readonly query: string;
        readonly headers: readonly WireHeader[];
        readonly body: Uint8Array;
        readonly rawBody: Uint8Array;
        readonly headerMap?: { readonly headers: readonly WireHeader[] } | null;
      } | null;
    } | null;
    readonly contextExtensions: readonly WireHeader[];
  } | null;
}

/** `agentgateway.dev.ext_mcp.McpRequest`. */
export interface McpRequest {
  readonly method: string;
  /** The JSON-RPC params as JSON. It is not an own property if the message has no params. */
  readonly mcpRequest: Uint8Array;
  readonly headers: readonly WireHeader[];
}

/** `google.protobuf.Value`: one of the members. */
export interface StructValue {
  readonly nullValue?: 0;
  readonly numberValue?: number;
  readonly stringValue?: string;
  readonly boolValue?: boolean;
  readonly structValue?: Struct;
  readonly listValue?: { readonly values: readonly StructValue[] };
}

/** `google.protobuf.Struct`. */
export interface Struct {
  readonly fields: readonly { readonly key: string; readonly value: StructValue }[];
}

/** `envoy.config.core.v3.HeaderValueOption`. */
export interface HeaderOption {
  readonly header: { readonly key: string; readonly value: Uint8Array };
  readonly append: { readonly value?: boolean };
  readonly appendAction: number;
}

/** `envoy.service.auth.v3.CheckResponse`. */
export interface CheckResponse {
  readonly status: { readonly code: number; readonly message?: string };
  readonly deniedResponse?: {
    readonly status: { readonly code: number };
    readonly headers: readonly HeaderOption[];
    readonly body: string;
  };
  readonly okResponse?: {
    readonly headers: readonly HeaderOption[];
    readonly headersToRemove: readonly string[];
  };
  readonly dynamicMetadata?: Struct;
}

/** `agentgateway.dev.ext_mcp.McpRequestResult`. */
export interface McpRequestResult {
  readonly pass?: Readonly<Record<string, never>>;
  readonly error?: { readonly code: number; readonly reason: string; readonly mcpError?: Uint8Array };
  readonly headerMutation?: {
    readonly set: readonly { readonly key: string; readonly value: Uint8Array }[];
    readonly remove: readonly string[];
  };
  readonly metadata?: Struct;
}

const root = protobuf.Root.fromJSON(SCHEMA);

/** Where the bodies are in a question, which may be long: the fields that lead there, and those of the bodies. */
const CHECK_BODIES = { path: [1, 4, 2], bodies: [11, 12] };
const MCP_BODIES = { path: [], bodies: [4] };
const LENGTH_DELIMITED = 2;

/**
 * Refuses a message that holds more than {@link BESIDES_BYTES} besides its bodies. Without this, a message of a million
 * empty headers would be decoded to a million objects.
 */
function requireLittleBesides(message: Uint8Array, { path, bodies }: typeof CHECK_BODIES): void {
  let besides = 0;
  const walk = (bytes: Uint8Array, depth: number): void => {
    const reader = protobuf.Reader.create(bytes);
    while (reader.pos < reader.len) {
      const start = reader.pos;
      const tag = reader.uint32();
      const field = tag >>> 3;
      if ((tag & 7) !== LENGTH_DELIMITED) reader.skipType(tag & 7);
      else if (depth === path.length && bodies.includes(field)) besides -= reader.bytes().length;
      else if (field === path[depth]) {
        const part = reader.bytes();
        besides -= part.length;
        walk(part, depth + 1);
      } else reader.skip(reader.uint32());
      besides += reader.pos - start;
      if (besides > BESIDES_BYTES)
        throw new Error(`the message holds more than ${BESIDES_BYTES} bytes besides the body`);
    }
  };
  walk(message, 0);
}

/** The interfaces above repeat the schema; test/e2e/grpc.test.ts compares both with the .proto files. */
function read(type: string, bytes: Uint8Array): unknown {
  return root.lookupType(type).decode(bytes);
}

function write(type: string, message: object): Buffer {
  return root.lookupType(type).encode(message).finish() as Buffer;
}

/** @throws Error if the bytes are not such a message, as the other `read…` functions do, or hold too much besides the body */
export function readCheckRequest(bytes: Uint8Array): CheckRequest {
  requireLittleBesides(bytes, CHECK_BODIES);
  return read('CheckRequest', bytes) as CheckRequest;
}
export const writeCheckResponse = (message: CheckResponse) => write('CheckResponse', message);
/** @throws Error as {@link readCheckRequest} does */
export function readMcpRequest(bytes: Uint8Array): McpRequest {
  requireLittleBesides(bytes, MCP_BODIES);
  return read('McpRequest', bytes) as McpRequest;
}
export const writeMcpRequestResult = (message: McpRequestResult) => write('McpRequestResult', message);
export const writeMcpResponseResult = (message: { readonly pass: object }) =>
  write('McpResponseResult', message);
export const readHealthRequest = (bytes: Uint8Array) =>
  read('HealthCheckRequest', bytes) as { readonly service: string };
export const writeHealthResponse = (message: { readonly status: number }) =>
  write('HealthCheckResponse', message);
