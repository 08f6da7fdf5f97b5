import protobuf from 'protobufjs/light.js';
import { describe, expect, it } from 'vitest';
import { BESIDES_BYTES, readCheckRequest, readMcpRequest } from '../../../src/service/grpc/messages.js';

/** A field with bytes. */
const field = (id: number, ...parts: readonly Uint8Array[]) =>
  Buffer.from(
    protobuf.Writer.create()
      .uint32((id << 3) | 2)
      .bytes(Buffer.concat(parts))
      .finish(),
  );
const http = (...fields: readonly Uint8Array[]) => field(1, field(4, field(2, ...fields)));
const headers = (count: number) => Buffer.concat(Array.from({ length: count }, () => field(3)));
const large = Buffer.alloc(1_000_000, 'x');
/** What stands around the headers in a message with a large body. */
const around = http(field(11, large)).length - large.length;
const fitting = Math.floor((BESIDES_BYTES - around - 8) / 2);

describe('a question', () => {
  it('may have a large body, and 64 KiB of everything else', () => {
    const { attributes } = readCheckRequest(http(headers(fitting), field(11, large), field(12, large)));
    expect(attributes?.request?.http?.headers).toHaveLength(fitting);
    expect(attributes?.request?.http?.body).toHaveLength(large.length);
    const mcp = readMcpRequest(Buffer.concat([field(4, large), headers(100)]));
    expect(mcp.mcpRequest).toHaveLength(large.length);
  });

  it.each([
    ['headers', http(headers(fitting + 8))],
    ['headers beside a body', http(field(11, large), headers(fitting + 8))],
    ['headers in several parts', Buffer.concat([http(headers(fitting)), http(headers(fitting))])],
    ['unknown fields', http(field(99, large))],
    ['unknown fields outside', Buffer.concat([field(9, large), http()])],
    ['small numbers', http(Buffer.alloc(100_000, Buffer.from([0x28, 1])))],
    ['a body elsewhere', field(1, field(11, large))],
  ])('is refused with more: %s', (_, bytes) => {
    expect(() => readCheckRequest(bytes)).toThrow('more than 65536 bytes besides the body');
  });

  it('about MCP is refused with more headers', () => {
    const many = Buffer.concat(Array.from({ length: 40_000 }, () => field(5)));
    expect(() => readMcpRequest(many)).toThrow('more than 65536 bytes besides the body');
  });

  it('is refused where a length leads beyond its end', () => {
    expect(() => readCheckRequest(Buffer.from([0x0a, 5, 0]))).toThrow('out of range');
  });
});
