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

/** A service that lives as long as the demo. */
export interface DemoService {
  readonly url: string;
  post(path: '/verify' | '/admin/revoke', body: object): Promise<DemoAnswer>;
  stop(): Promise<void>;
}

/** Starts a service on a free port, with no configuration but an admin token. */
export async function startService(adminToken: string): Promise<DemoService> {
  const main = fileURLToPath(new URL('main.js', import.meta.url));
  // Nothing of the caller's configuration comes along: a trusted root set there would change the story.
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
  // What is not read would fill the pipe and stop the service in its next log line.
  child.stdout.resume();
  const post = async (path: string, body: object) => {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${adminToken}` };
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    // The demo compares each answer with the expected one, so a wrong shape shows up as a surprise.
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
