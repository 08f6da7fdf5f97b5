import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** The parts of the service's answers that the demo reads. */
export interface DemoAnswer {
  readonly valid?: boolean;
  readonly context?: { readonly root_principal: string; readonly chain_depth: number };
  readonly error?: { readonly code: string; readonly message: string };
  readonly binding?: string;
  readonly revoked?: boolean;
}

/** A service that runs during the demo. */
export interface DemoService {
  readonly url: string;
  post(path: '/verify' | '/admin/revoke', body: object): Promise<DemoAnswer>;
  stop(): Promise<void>;
}

/** Starts a service on a free port. Its only configuration is an admin token. */
export async function startService(adminToken: string): Promise<DemoService> {
  const main = fileURLToPath(new URL('main.js', import.meta.url));
  // The caller's environment is not inherited: a trusted root in it would change the outcomes.
  const { PATH, SystemRoot } = process.env;
  const env = { PATH, SystemRoot, HOST: '127.0.0.1', PORT: '0', DRS_ADMIN_TOKEN: adminToken };
  const child = spawn(process.execPath, [main, 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  let url: string | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    url = listeningUrlOf(line);
    if (url !== undefined) break;
  }
  if (url === undefined) {
    await exited;
    throw new Error('the service did not start; what it printed stands above');
  }
  // Read the output: a full pipe would block the service at its next log line.
  child.stdout.resume();
  const post = async (path: string, body: object) => {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${adminToken}` };
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    // The cast is safe: the demo compares each answer with the expected one.
    return (await response.json()) as DemoAnswer;
  };
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
  };
  return { url, post, stop };
}

function listeningUrlOf(line: string): string | undefined {
  try {
    const { msg, url } = JSON.parse(line) as { msg?: unknown; url?: unknown };
    return msg === 'listening' && typeof url === 'string' ? url : undefined;
  } catch {
    return undefined;
  }
}
