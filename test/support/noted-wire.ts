import type { TakePiece, Wire, WireAnswer } from '../../src/service/http/front-end.js';
import { GateHead } from '../../src/service/http/request-head.js';

/** A wire that notes what is done to it: over a real one, most orders of events cannot be had on demand. */
export class NotedWire implements Wire {
  readonly done: string[] = [];
  readonly answers: WireAnswer[] = [];
  take: TakePiece = () => this.done.push('nobody takes');
  gone = (): unknown => this.done.push('nobody asks');

  remoteAddress = () => '192.0.2.1';
  onAborted = (gone: () => void) => void (this.gone = gone);
  receive(take: TakePiece, isWanted: boolean): void {
    this.take = take;
    this.done.push(isWanted ? 'receive' : 'discard');
  }
  keepOpen = () => void this.done.push('keep open');
  write(answer: WireAnswer): void {
    this.done.push('write');
    this.answers.push(answer);
  }
  writeEarly(answer: WireAnswer): void {
    this.done.push('write early');
    this.answers.push(answer);
  }
  begin({ status, headers }: Pick<WireAnswer, 'status' | 'headers'>): void {
    this.done.push(`begin ${status} ${JSON.stringify(headers)}`);
  }
  hasRoom = true;
  drained = (): void => undefined;
  writePiece(piece: string, drained: () => void): boolean {
    this.done.push(piece);
    this.drained = drained;
    return this.hasRoom;
  }
  finish = (answer: object) => void this.done.push(`finish ${JSON.stringify(answer)}`);
  close = () => void this.done.push('close');
  cut = () => void this.done.push('cut');
}

/** The head of a request with no header. */
export const BARE_HEAD = {
  ...{ contentLength: 0, hasBody: false, framingFault: null, isLast: false, origin: null, fetchSite: null },
  ...{ contentType: null, contentEncoding: null, hasBundle: false },
  ...{ requestId: null, traceparent: null, forwardedFor: null, gate: new GateHead() },
};
