/** The files by name: what each load generator reads. @param marker what is in the answer to a valid call */
export function filesOf(bodies: readonly string[], url: string, marker: string): Record<string, string> {
  const header = { 'Content-Type': ['application/json'] };
  const target = (body: string) =>
    JSON.stringify({ method: 'POST', url, header, body: Buffer.from(body).toString('base64') });
  return {
    'body.json': bodies[0] ?? '',
    'bodies.jsonl': `${bodies.join('\n')}\n`,
    'vegeta.jsonl': `${bodies.map(target).join('\n')}\n`,
    'k6.js': K6.replace('TARGET', () => JSON.stringify(url)).replace('MARKER', () => JSON.stringify(marker)),
    'wrk.lua': WRK.replace('MARKER', () => JSON.stringify(marker)),
  };
}

const K6 = `import { check } from 'k6';
import { SharedArray } from 'k6/data';
import exec from 'k6/execution';
import http from 'k6/http';

const url = __ENV.URL || TARGET;
const bodies = new SharedArray('bodies', () => open('./bodies.jsonl').trim().split('\\n'));

export default function () {
  const body = bodies[exec.scenario.iterationInTest % bodies.length];
  const answer = http.post(url, body, { headers: { 'Content-Type': 'application/json' } });
  check(answer, { valid: ({ status, body }) => status === 200 && body.includes(MARKER) });
}
`;

// For wrk and wrk2. Each thread has its own variables.
const WRK = `local folder = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local bodies, threads, at = {}, {}, 0
wrong = 0

for line in io.lines(folder .. 'bodies.jsonl') do bodies[#bodies + 1] = line end
wrk.method = 'POST'
wrk.headers['Content-Type'] = 'application/json'

function setup(thread) threads[#threads + 1] = thread end

function request()
  at = at % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end

function response(status, _, body)
  if status ~= 200 or not body:find(MARKER, 1, true) then wrong = wrong + 1 end
end

function done()
  local sum = 0
  for _, thread in ipairs(threads) do sum = sum + thread:get('wrong') end
  print('Wrong answers: ' .. sum)
end
`;
