import { execFile } from 'node:child_process';
import type { Logger } from 'pino';

/**
 * Tells systemd that the service is ready, for units with `Type=notify`. Does nothing if no `NOTIFY_SOCKET` is set. It is
 * a datagram socket, which Node cannot use, so systemd's own program sends the message (`NotifyAccess=all`).
 *
 * @param env the environment of the process
 * @param log gets a warning if systemd could not be told; systemd then ends the service after `TimeoutStartSec`
 */
export function notifyReady(env: NodeJS.ProcessEnv, log: Logger): void {
  const { NOTIFY_SOCKET = '', PATH } = env;
  if (NOTIFY_SOCKET === '') return;
  execFile('systemd-notify', ['--ready'], { env: { NOTIFY_SOCKET, PATH } }, (err) => {
    if (err !== null)
      log.warn({ err }, 'systemd-notify could not tell systemd that the service is ready: use Type=exec');
  });
}
