import { expect, it } from 'vitest';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { problemsOf } from './problems-of.js';

it.each([
  'https://approve.example',
  'https://approve.example:8443',
  'http://localhost',
  'http://localhost:8765',
])('APPROVALS_URL can be %s', (url) => {
  expect(readConfiguration({ APPROVALS_URL: url })).toMatchObject({
    approvalsUrl: url,
    approvalsOpenSecs: 86_400,
  });
});

it.each([
  'https://approve.example/',
  'https://approve.example/approve',
  'http://approve.example',
  'http://127.0.0.1:8765',
  'https://192.0.2.1',
  'approve.example',
])('APPROVALS_URL cannot be %s', (url) => {
  expect(problemsOf({ APPROVALS_URL: url })).toEqual([
    `APPROVALS_URL is "${url}": expected an origin such as https://approve.example, or http://localhost with a port`,
  ]);
});

it('questions that instances on one port do not share are refused', () => {
  const env = { APPROVALS_URL: 'https://approve.example', SHARE_PORT: '1', GATE_REPLAY: 'off' };
  expect(problemsOf(env)).toEqual([
    'SHARE_PORT is set, and instances do not share what APPROVALS_URL asks: set GATE_REPLAY to redis',
  ]);
  expect(problemsOf({ ...env, GATE_REPLAY: 'redis', REDIS_URL: 'redis://127.0.0.1' })).toEqual([]);
});
