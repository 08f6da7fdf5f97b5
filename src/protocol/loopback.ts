/** Whether an address, or the host of a URL, is of the loopback interface: of this very machine. */
export const isLoopback = (host: string): boolean =>
  /^(?:localhost|::1|\[::1\]|127\.\d+\.\d+\.\d+)$/.test(host);
