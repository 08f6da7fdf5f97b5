// Speaks over stdio: says in a notification `got` which line came, and answers requests. It does not parse strictly: what is
// sent on is what the guard makes of it.
import { once } from 'node:events';

const out = process.stdout;
for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2'])
  process.on(signal, () => {
    process.stderr.write(`got ${signal}\n`);
    if (signal === 'SIGTERM') process.exit(7);
  });
process.stderr.write(
  `${JSON.stringify({ pid: process.pid, env: Object.keys(process.env).filter((name) => /GATE|DRS|OWN/.test(name)) })}\n`,
);
let text = '';
process.stdin.setEncoding('utf8');
for await (const chunk of process.stdin) {
  text += String(chunk);
  const lines = text.split('\n');
  text = lines.pop() ?? '';
  for (const line of lines) {
    const said = [JSON.stringify({ jsonrpc: '2.0', method: 'got', params: { line } })];
    try {
      const { id, method, params } =
        /** @type {{ id?: unknown, method?: string, params?: { arguments?: { result?: object }, say?: string } }} */ (
          JSON.parse(line)
        );
      // As some servers write: no space to be found in what passes byte for byte.
      const result = params?.arguments?.result ?? { capabilities: { tools: {} } };
      if (id !== undefined && method !== undefined)
        said.push(`{ "jsonrpc":"2.0","id":${JSON.stringify(id)}, "result":${JSON.stringify(result)} }`);
      if (method === 'notifications/progress' && params?.say !== undefined) said.push(params.say);
    } catch {
      said.push('not JSON');
    }
    if (!out.write(`${said.join('\n')}\n`)) await once(out, 'drain');
  }
}
process.stderr.write('end of input\n');
