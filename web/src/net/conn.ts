// One WebSocket that comes back. It speaks the line protocol of the daemon: calls with answers, and
// streams of pushes. A flood on one connection must not delay the answers of another, so every
// terminal and every followed output has its own.
import { signal, type Signal } from '@preact/signals';
import type { StreamEvent, StreamStart } from '../../../sdk/typescript/src/types.js';
import { key, me, refreshMe } from './login.js';

export type State = 'connecting' | 'online' | 'waiting' | 'over';
export type Push = StreamEvent & { owner_id?: string; cols?: number; rows?: number };

/** An error of the daemon, or CONNECTION_LOST when its answer did not come. */
export class CallError extends Error {
  constructor(readonly code: string, message: string, readonly details?: Record<string, unknown>) {
    super(message);
  }
  get lost(): boolean { return this.code === 'CONNECTION_LOST'; }
}

interface Pending { resolve(data: unknown): void; reject(e: CallError): void; push: ((p: Push) => void) | undefined }

const HANDSHAKE_MS = 10_000;
const all = new Set<Conn>();

export class Conn {
  readonly state: Signal<State> = signal('connecting');
  /** When the next try is, in milliseconds of Date.now(), while waiting. */
  readonly next = signal(0);
  /** Since when there has been no connection; 0 while there is one. */
  readonly lostAt = signal(0);
  private ws: WebSocket | undefined;
  private pending = new Map<string, Pending>();
  private streams = new Map<string, (p: Push) => void>();
  private id = 0;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  /** opened is called after every connect; what is subscribed there is subscribed again. */
  constructor(private readonly opened: (c: Conn) => void) {
    all.add(this);
    this.connect();
  }

  private connect(): void {
    if (this.closed || this.ws) return;
    clearTimeout(this.timer);
    this.state.value = 'connecting';
    const url = `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/ws`;
    const ws = (this.ws = new WebSocket(url, ['trl.v1', 'trl.key.' + key()]));
    let was = false;
    const late = setTimeout(() => ws.close(), HANDSHAKE_MS);
    ws.onopen = () => {
      clearTimeout(late);
      was = true;
      this.tries = 0;
      this.lostAt.value = 0;
      this.state.value = 'online';
      this.opened(this);
    };
    ws.onmessage = (m) => this.receive(m.data as string);
    ws.onclose = (e) => {
      clearTimeout(late);
      if (this.ws !== ws) return;
      this.ws = undefined;
      this.lose();
      if (this.closed) return;
      if (!this.lostAt.value) this.lostAt.value = Date.now();
      if (e.code === 4401) return this.over();
      if (!was) void this.askWhy(); // a browser does not say why a handshake was refused
      this.wait();
    };
  }

  private wait(): void {
    if (this.state.value === 'over') return;
    const pause = Math.min(100 * 2 ** this.tries++, 5000) * (0.75 + Math.random() / 2);
    this.state.value = 'waiting';
    this.next.value = Date.now() + pause;
    this.timer = setTimeout(() => this.connect(), pause);
  }

  private async askWhy(): Promise<void> {
    await refreshMe().catch(() => undefined);
    if (me.value === null) this.over();
  }

  private over(): void {
    clearTimeout(this.timer);
    this.state.value = 'over';
    me.value = null;
  }

  private lose(): void {
    const lost = new CallError('CONNECTION_LOST', 'the connection to the daemon was lost');
    const pending = [...this.pending.values()];
    this.pending.clear();
    this.streams.clear();
    for (const p of pending) p.reject(lost);
  }

  private receive(line: string): void {
    const m = JSON.parse(line);
    if (m.stream_id !== undefined && m.id === undefined) {
      this.streams.get(m.stream_id)?.(m as Push);
      return;
    }
    const p = this.pending.get(m.id);
    if (!p) return;
    this.pending.delete(m.id);
    if (!m.ok) {
      p.reject(new CallError(m.error.code, m.error.message, m.error.details));
      return;
    }
    if (p.push && m.data?.stream_id) this.streams.set(m.data.stream_id, p.push); // before the first push is read
    p.resolve(m.data);
  }

  private send(method: string, params: object, push?: (p: Push) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (!this.ws || this.ws.readyState !== WebSocket.OPEN) {
        reject(new CallError('CONNECTION_LOST', 'there is no connection to the daemon'));
        return;
      }
      const id = String(++this.id);
      this.pending.set(id, { resolve, reject, push });
      this.ws.send(JSON.stringify({ id, method, params }));
    });
  }

  call<T = unknown>(method: string, params: object = {}): Promise<T> { return this.send(method, params) as Promise<T>; }

  stream(method: string, params: object, push: (p: Push) => void): Promise<StreamStart> {
    return this.send(method, params, push) as Promise<StreamStart>;
  }

  /** Ends a stream; none of its pushes is delivered any more. */
  end(stream: string): void {
    this.streams.delete(stream);
    this.call('stream.close', { stream_id: stream }).catch(() => undefined);
  }

  /** Drops the connection and makes a new one. */
  restart(): void { this.ws?.close(); }

  /** Tries again now, if it waits. After a new login, one that is over comes back, too. */
  kick(): void {
    if (this.state.value === 'waiting' || (this.state.value === 'over' && me.value)) {
      this.tries = 0;
      this.state.value = 'connecting';
      this.connect();
    }
  }

  close(): void {
    this.closed = true;
    all.delete(this);
    clearTimeout(this.timer);
    const ws = this.ws;
    this.ws = undefined;
    this.lose();
    ws?.close();
  }
}

export function kickAll(): void {
  for (const c of all) c.kick();
}

addEventListener('online', kickAll);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) kickAll();
});
