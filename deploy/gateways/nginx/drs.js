// Asks the gate about each request; nginx.conf beside this file says how.

const HEADERS = [
  'Root-Principal',
  'Root-Name',
  'Root-Type',
  'Agent',
  'Chain-Depth',
  'Command',
  'Tool',
  'Invocation',
  'Session-Id',
  'Correlation-Id',
  'Approved-By',
  'Binding',
  'Context',
  'Observed',
];

const refusal = (status, code, detail) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: null,
    error: { code: -32010, message: `DRS: ${code}`, data: { code, detail, status } },
  });
const UNAVAILABLE = refusal(503, 'VERIFIER_UNAVAILABLE', 'the gate did not answer');
const LIMITED = refusal(429, 'RATE_LIMITED', 'the gate was asked about too many requests of this address');
const TOO_LARGE = refusal(431, 'HEADERS_TOO_LARGE', 'the headers are larger or more than the gate takes');

// uWebSockets.js gives no answer to more than 100.
const MAX_HEADERS = 90;

async function gate(r) {
  if (r.rawHeadersIn.length > MAX_HEADERS) {
    r.headersOut['Content-Type'] = 'application/json';
    r.return(431, TOO_LARGE);
    return;
  }
  r.variables.drs_method = r.method;
  // The body of the request goes along.
  const reply = await r.subrequest('/_drs_gate', { method: r.method });
  if (reply.status === 200) {
    HEADERS.forEach((name) => {
      const variable = `drs_${name.toLowerCase().replace('-', '_')}`;
      r.variables[variable] = reply.headersOut[`X-DRS-${name}`] || '';
    });
    r.internalRedirect('@tools');
    return;
  }
  r.headersOut['Content-Type'] = 'application/json';
  // Whatever is not the gate's own denial is no answer of the gate: refused.
  const code = reply.headersOut['X-DRS-Code'];
  if (reply.status === 431) {
    r.return(431, TOO_LARGE);
    return;
  }
  if (reply.status === 429) {
    r.headersOut['Retry-After'] = reply.headersOut['Retry-After'];
    r.return(429, LIMITED);
    return;
  }
  if (!code) {
    r.return(503, UNAVAILABLE);
    return;
  }
  const challenge = reply.headersOut['WWW-Authenticate'];
  if (challenge) r.headersOut['WWW-Authenticate'] = challenge;
  r.return(reply.status, reply.responseText);
}

export default { gate };
