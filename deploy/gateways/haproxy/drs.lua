-- Asks the gate about each request; haproxy.cfg beside this file says how.

local GATE = "http://127.0.0.1:8080/gate/mcp"
-- MAX_BODY_BYTES of the gate. HAProxy hands on what fits its buffer, so what is longer may be a part.
local MAX_BODY_BYTES = 1048576
-- uWebSockets.js gives no answer to more than 100.
local MAX_HEADERS = 90
-- HAProxy's HTTP client tries up to four times.
local TIMEOUT_MS = 1250

-- What belongs to the connection with the caller.
local OWN = {
  ["host"] = true,
  ["connection"] = true,
  ["content-length"] = true,
  ["transfer-encoding"] = true,
  ["expect"] = true,
  ["upgrade"] = true,
}

-- What `Connection` may name: haproxy.cfg takes these headers off.
local NAMED = {
  ["close"] = true,
  ["keep-alive"] = true,
  ["upgrade"] = true,
  ["http2-settings"] = true,
  ["te"] = true,
}

-- The gate refuses a question with a body about one of these.
local BODILESS = { ["GET"] = true, ["HEAD"] = true, ["OPTIONS"] = true, ["DELETE"] = true }

local CONTEXT = {
  "x-drs-root-principal",
  "x-drs-root-name",
  "x-drs-root-type",
  "x-drs-agent",
  "x-drs-chain-depth",
  "x-drs-command",
  "x-drs-tool",
  "x-drs-invocation",
  "x-drs-session-id",
  "x-drs-correlation-id",
  "x-drs-approved-by",
  "x-drs-binding",
  "x-drs-context",
  "x-drs-observed",
}

local function refuse(txn, status, body, more)
  local reply = txn:reply({ status = status })
  reply:add_header("content-type", "application/json")
  for name, value in pairs(more or {}) do
    reply:add_header(name, value)
  end
  reply:set_body(body)
  txn:done(reply)
end

local function own_refusal(txn, status, code, more)
  refuse(
    txn,
    status,
    '{"jsonrpc":"2.0","id":null,"error":{"code":-32010,"message":"DRS: ' .. code .. '","data":{"code":"' .. code .. '","status":' .. status .. "}}}",
    more
  )
end

-- HAProxy counts values from 0 in what it gives, and from 1 in what it takes.
local function values_of(list)
  local values = {}
  for index = 0, #list do
    if list[index] ~= nil then
      values[#values + 1] = list[index]
    end
  end
  return values
end

-- Whether `Connection` names a header that would reach the gate, and not the tool server.
local function names_others(headers)
  for _, value in pairs(headers["connection"] or {}) do
    for name in value:lower():gmatch("[^,]+") do
      name = name:match("^%s*(.-)%s*$")
      if name ~= "" and not NAMED[name] then
        return true
      end
    end
  end
  return false
end

core.register_action("drs-gate", { "http-req" }, function(txn)
  local callers = txn.http:req_get_headers()
  if names_others(callers) then
    return own_refusal(txn, 400, "HOP_BY_HOP_HEADER")
  end
  local body = txn.sf:req_body() or ""
  -- Without a length, trailers can follow. HAProxy 3.2 has `option http-drop-request-trailers`.
  if callers["transfer-encoding"] or (#body > 0 and not callers["content-length"]) then
    return own_refusal(txn, 411, "HOP_BY_HOP_HEADER")
  end
  if #body > MAX_BODY_BYTES then
    return own_refusal(txn, 413, "BODY_TOO_LARGE")
  end
  local method = txn.sf:method()
  local headers = { ["x-original-method"] = { method }, ["x-original-uri"] = { txn.sf:pathq() } }
  local count = 0
  for name, list in pairs(callers) do
    if not OWN[name] then
      headers[name] = values_of(list)
      count = count + #headers[name]
    end
  end
  if count > MAX_HEADERS then
    return own_refusal(txn, 431, "HEADERS_TOO_LARGE")
  end
  local client = core.httpclient()
  -- Without one, HAProxy's own client says that it accepts everything.
  headers["accept"] = headers["accept"] or { "" }
  local request = { url = GATE, headers = headers, timeout = TIMEOUT_MS }
  local answered, response
  -- X-Original-Method says what the method is. A body goes along with any: without one, some of these methods pass.
  if #body > 0 or not BODILESS[method] then
    request.body = body
  end
  answered, response = pcall(BODILESS[method] and client.get or client.post, client, request)
  -- Whatever is not the gate's own answer is none: refused.
  if not answered or response == nil then
    return own_refusal(txn, 503, "VERIFIER_UNAVAILABLE")
  end
  local function header(name)
    local list = response.headers and response.headers[name]
    return list and list[0]
  end
  if response.status == 200 then
    for _, name in ipairs(CONTEXT) do
      if header(name) then
        txn.http:req_set_header(name, header(name))
      end
    end
    txn:set_var("txn.drs", "allowed")
    return
  end
  if response.status == 431 then
    return own_refusal(txn, 431, "HEADERS_TOO_LARGE")
  end
  if response.status == 429 then
    return own_refusal(txn, 429, "RATE_LIMITED", { ["retry-after"] = header("retry-after") })
  end
  if header("x-drs-code") then
    return refuse(txn, response.status, response.body, { ["www-authenticate"] = header("www-authenticate") })
  end
  own_refusal(txn, 503, "VERIFIER_UNAVAILABLE")
end, 0)
