// A part of the output of a command, as bytes: a window of which the page shows lines. Older and
// newer bytes are read when they come into sight, so the length of the whole output does not matter.
import { signal } from '@preact/signals';
import type { ExecOutputResult } from '../../../sdk/typescript/src/types.js';
import { Conn, type Push, type TrlError } from './conn.js';
import { control } from './sessions.js';

export type StreamName = 'stdout' | 'stderr';
export type Row = { from: number; to: number; gap?: undefined } | { gap: { from: number; to: number } };

const PIECE = 256 << 10;
const WINDOW = 1 << 20;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

function bytesOf(data: string | undefined, base64: string | undefined): Uint8Array {
  return base64 ? Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)) : encoder.encode(data ?? '');
}

interface Segment { offset: number; bytes: Uint8Array }

export class Log {
  /** Grows when the rows have changed. */
  readonly version = signal(0);
  readonly total = signal(0);
  readonly complete = signal(false);
  /** Whether new output is shown as it comes. */
  readonly following = signal(true);
  readonly error = signal('');
  rows: Row[] = [];
  private segments: Segment[] = [];
  private conn: Conn | undefined;
  private busy = false;
  private closed = false;

  constructor(readonly exec: string, readonly stream: StreamName) { void this.toEnd(); }

  get first(): number { return this.segments[0]?.offset ?? 0; }
  get next(): number {
    const s = this.segments.at(-1);
    return s ? s.offset + s.bytes.length : 0;
  }
  /** Whether there may be something before the window. */
  get hasBefore(): boolean { return this.first > 0; }
  get hasAfter(): boolean { return this.next < this.total.value; }

  text(r: Row): string {
    if (r.gap) return '';
    const s = this.segments.findLast((x) => x.offset <= r.from)!;
    const end = Math.min(r.to, r.from + 8192);
    return decoder.decode(s.bytes.subarray(r.from - s.offset, end - s.offset)).replace(/\r$/, '') + (end < r.to ? '…' : '');
  }

  private read(p: object): Promise<ExecOutputResult> {
    return control.call<ExecOutputResult>('exec.output', { exec_id: this.exec, stream: this.stream, ...p });
  }

  private async exclusive(f: () => Promise<void>): Promise<void> {
    if (this.busy || this.closed) return;
    this.busy = true;
    try {
      await f();
      this.error.value = '';
    } catch (e) {
      if (!(e as TrlError).lost) this.error.value = (e as Error).message;
    } finally {
      this.busy = false;
    }
  }

  /** Shows the end, and follows. */
  toEnd(): Promise<void> {
    return this.exclusive(async () => {
      this.stopFollowing();
      const r = await this.read({ tail: PIECE });
      this.start(r);
      this.following.value = true;
      this.follow();
    });
  }

  toStart(): Promise<void> { return this.around(0); }

  /** Shows the neighbourhood of an offset. */
  around(offset: number): Promise<void> {
    return this.exclusive(async () => {
      this.stopFollowing();
      this.start(await this.read({ offset: Math.max(0, offset - PIECE / 2), limit: PIECE }));
    });
  }

  private start(r: ExecOutputResult): void {
    this.segments = [{ offset: r.offset, bytes: bytesOf(r.data, r.data_base64) }];
    if (r.gap && r.gap.to === r.offset) this.segments.unshift({ offset: r.gap.from, bytes: new Uint8Array() }); // is shown as a gap
    this.note(r);
    this.index();
  }

  private note(r: ExecOutputResult): void {
    this.total.value = Math.max(this.total.value, r.total_bytes);
    this.complete.value = r.complete;
  }

  before(): Promise<void> {
    return this.exclusive(async () => {
      const end = this.first;
      if (end === 0) return;
      const from = Math.max(0, end - PIECE);
      const r = await this.read({ offset: from, limit: end - from });
      const bytes = bytesOf(r.data, r.data_base64).subarray(0, Math.max(0, end - r.offset));
      if (r.offset >= end) this.segments.unshift({ offset: 0, bytes: new Uint8Array() }); // none of it is kept any more
      else this.join({ offset: r.offset, bytes }, true);
      this.stopFollowing();
      while (this.size() > WINDOW && this.segments.length > 0) this.cut(false);
      this.index();
    });
  }

  after(): Promise<void> {
    return this.exclusive(async () => {
      const r = await this.read({ offset: this.next, limit: PIECE });
      this.note(r);
      this.join({ offset: r.offset, bytes: bytesOf(r.data, r.data_base64) }, false);
      while (this.size() > WINDOW && this.segments.length > 0) this.cut(true);
      this.index();
    });
  }

  private size(): number { return this.segments.reduce((n, s) => n + s.bytes.length, 0); }

  private join(s: Segment, front: boolean): void {
    const other = front ? this.segments[0] : this.segments.at(-1);
    const [a, b] = front ? [s, other] : [other, s];
    if (a && b && a.offset + a.bytes.length === b.offset) {
      const bytes = new Uint8Array(a.bytes.length + b.bytes.length);
      bytes.set(a.bytes);
      bytes.set(b.bytes, a.bytes.length);
      const joined = { offset: a.offset, bytes };
      if (front) this.segments[0] = joined;
      else this.segments[this.segments.length - 1] = joined;
    } else if (front) this.segments.unshift(s);
    else if (s.bytes.length > 0 || s.offset > this.next) this.segments.push(s);
  }

  // Cuts a piece off one end of the window.
  private cut(front: boolean): void {
    const s = front ? this.segments[0]! : this.segments.at(-1)!;
    if (s.bytes.length <= PIECE) {
      if (front) this.segments.shift();
      else this.segments.pop();
      return;
    }
    const i = s.bytes.length - PIECE;
    if (front) this.segments[0] = { offset: s.offset + PIECE, bytes: s.bytes.slice(PIECE) };
    else this.segments[this.segments.length - 1] = { offset: s.offset, bytes: s.bytes.slice(0, i) };
  }

  private index(): void {
    const rows: Row[] = [];
    let at = this.segments[0]?.offset ?? 0;
    for (const s of this.segments) {
      if (s.offset > at) rows.push({ gap: { from: at, to: s.offset } });
      let from = 0;
      for (;;) {
        const n = s.bytes.indexOf(10, from);
        if (n < 0) break;
        rows.push({ from: s.offset + from, to: s.offset + n });
        from = n + 1;
      }
      if (from < s.bytes.length) rows.push({ from: s.offset + from, to: s.offset + s.bytes.length });
      at = s.offset + s.bytes.length;
    }
    this.rows = rows;
    this.version.value++;
  }

  /** The index of the row that holds an offset. */
  rowOf(offset: number): number { return this.rows.findLastIndex((r) => (r.gap ? r.gap.from : r.from) <= offset); }

  private waiting: Push[] = [];
  private frame: ReturnType<typeof setTimeout> | undefined;

  private follow(): void {
    if (this.complete.value || this.conn || this.closed) return;
    this.conn = new Conn((c) => {
      void c.stream('exec.stream', { exec_id: this.exec, stream: this.stream, from_offset: this.next }, (p) => {
        this.waiting.push(p);
        this.frame ??= setTimeout(() => this.take(), 50);
      }).catch((e: TrlError) => { if (!e.lost) this.error.value = e.message; });
    });
  }

  private take(): void {
    this.frame = undefined;
    for (const p of this.waiting.splice(0)) {
      const type = p.type as string;
      if (type === this.stream) {
        let bytes = bytesOf(p.data, p.data_base64);
        let offset = p.offset ?? 0;
        if (offset < this.next) { // after a new connection
          bytes = bytes.subarray(Math.min(bytes.length, this.next - offset));
          offset = this.next;
        }
        this.join({ offset, bytes }, false);
        this.total.value = Math.max(this.total.value, offset + bytes.length);
      } else if (type === 'exit') {
        this.complete.value = true;
        this.stopConn();
      } else if (type === 'error') this.conn?.restart();
    }
    while (this.size() > WINDOW && this.segments.length > 0) this.cut(true);
    this.index();
  }

  private stopConn(): void {
    this.conn?.close();
    this.conn = undefined;
  }

  private stopFollowing(): void {
    this.following.value = false;
    this.waiting = [];
    this.stopConn();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.frame);
    this.stopFollowing();
  }
}

export interface Hit { offset: number; text: string }

/** Lets the daemon search the whole output, piece by piece. */
export async function* grep(exec: string, stream: StreamName, pattern: string): AsyncGenerator<{ hits: Hit[]; done: boolean }> {
  for (let offset = 0; ;) {
    const r = await control.call<ExecOutputResult>('exec.output', { exec_id: exec, stream, grep: pattern, offset, limit: 256 << 10 });
    const done = r.next_offset <= offset || r.next_offset >= r.total_bytes;
    yield { hits: (r.lines ?? []).map((l) => ({ offset: l.offset, text: l.text })), done };
    if (done) return;
    offset = r.next_offset;
  }
}
