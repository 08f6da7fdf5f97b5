/** Where a front end listens. */
export interface ListenAddress {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Other processes of the same user can listen on the port too. The kernel then distributes new connections among them. */
  readonly isShared: boolean;
}

/** An address as it is printed: `127.0.0.1:8080`, `[::1]:8080`. */
export function showAddress({ host, port }: Pick<ListenAddress, 'host' | 'port'>): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
