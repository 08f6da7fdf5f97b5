-- Arguments after "--": bodies file, cold bodies file ("" for none), every how many requests one is cold (0: never),
-- where in the cold bodies to start, the number of threads, what must stand in every answer, the path. What stands before a
-- tab in a line is the header X-DRS-Bundle. A marker "Name: value" is a header of the answer.
local threads = {}

function setup(thread)
  thread:set("number", #threads)
  table.insert(threads, thread)
end

local function requests_of(file, path)
  local list = {}
  if file ~= "" then
    for line in io.lines(file) do
      local bundle, body = line:match("^([^\t]*)\t(.*)$")
      local headers = { ["Content-Type"] = "application/json", ["X-DRS-Bundle"] = bundle }
      table.insert(list, wrk.format("POST", path, headers, body or line))
    end
  end
  return list
end

local warm, cold, every, step, marker, marker_header
local at, warm_at, cold_at = 0, 0, 0
answered, wrong, first_wrong = 0, 0, ""

function init(args)
  warm, cold = requests_of(args[1], args[7]), requests_of(args[2], args[7])
  every, step, marker = tonumber(args[3]), tonumber(args[5]), args[6]
  local name, value = marker:match("^([%a-]+): (.*)$")
  if name then marker_header, marker = name, value end
  -- The threads take turns, so that together they send one body after the other.
  warm_at, cold_at = number, tonumber(args[4]) + number
end

function request()
  at = at + 1
  if every > 0 and at % every == 0 then
    cold_at = cold_at + step
    return cold[cold_at % #cold + 1]
  end
  warm_at = warm_at + step
  return warm[warm_at % #warm + 1]
end

function response(status, headers, body)
  answered = answered + 1
  local text = body
  if marker_header then text = headers[marker_header] or "" end
  if status ~= 200 or not string.find(text, marker, 1, true) then
    wrong = wrong + 1
    if first_wrong == "" then first_wrong = status .. " " .. string.sub(body, 1, 300) end
  end
end

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return string.format("\\u%04x", c:byte()) end) .. '"'
end

function done(summary, latency, _)
  local all, bad, example = 0, 0, ""
  for _, thread in ipairs(threads) do
    all = all + thread:get("answered")
    bad = bad + thread:get("wrong")
    if example == "" then example = thread:get("first_wrong") end
  end
  local pairs_ = {}
  for i = 1, #latency do
    local value, count = latency(i)
    table.insert(pairs_, string.format("[%d,%d]", value, count))
  end
  local e = summary.errors
  io.write(string.format(
    '\nRESULT {"durationUs":%d,"requests":%d,"answered":%d,"wrong":%d,"firstWrong":%s,"errors":%d,"latencies":[%s]}\n',
    summary.duration, summary.requests, all, bad, quoted(example),
    e.connect + e.read + e.write + e.status + e.timeout, table.concat(pairs_, ",")))
end
