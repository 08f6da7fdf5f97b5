import { expect, it } from 'vitest';
import { gateProtocolOf } from '../../src/service/http/request-head.js';

it.each([
  ['/gate/http', 'http'],
  ['/gate/mcp', 'mcp'],
  ['/gate/a2a', 'a2a'],
  ['/gate/chain', null],
  ['/gate/mcp/', 'mcp'],
  ['/gate/mcp/tools/x?y=/gate/http', 'mcp'],
  ['/gate/', null],
  ['/gate', null],
  ['/gate/mcpx', null],
  ['/gate/mc', null],
  ['/gate/MCP', null],
  ['/gate//mcp', null],
  ['/verify', null],
  ['/x/gate/mcp', null],
  ['/date/mcp', null],
  ['gate/mcp', null],
  // A proxy that resolves these sees another path.
  ['/gate/mcp/../http', null],
  ['/gate/mcp/./x', null],
  ['/gate/mcp/%2e%2E/http', null],
  ['/gate/mcp\\..\\http', null],
  ['/gate/mcp/\\..\\..\\http', null],
])('the protocol in %s is %s', (path, protocol) => expect(gateProtocolOf(path)).toBe(protocol));
