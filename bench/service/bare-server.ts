import uWS from 'uWebSockets.js';

/**
 * Serves POST requests on a free port of 127.0.0.1: reads the body, then lets `write` answer. Prints `{"port":…}` once
 * it listens, and ends on SIGTERM.
 *
 * @param write writes the answer; the response is corked
 */
export function serveBare(write: (res: uWS.HttpResponse) => void): void {
  uWS
    .App()
    .post('/*', (res) => {
      res.onAborted(() => undefined);
      res.onData((_chunk, isLast) => {
        if (isLast) res.cork(() => write(res));
      });
    })
    .listen('127.0.0.1', 0, (socket) => {
      if (socket === false) throw new Error('the server cannot listen on 127.0.0.1');
      process.stdout.write(`${JSON.stringify({ port: uWS.us_socket_local_port(socket) })}\n`);
    });
  process.on('SIGTERM', () => process.exit(0));
}
