// Types into a terminal in order and exactly once: one session.input is on its way at a time, and a
// piece whose answer was lost is repeated with the same id, which the daemon writes only once.
import { signal } from '@preact/signals';
import { CallError, type Conn } from './conn.js';

type Piece = { text: string } | { data_base64: string } | { paste: string } | { text: string; keys: string[] };

/** How much may wait for a connection. More is refused, not lost in silence. */
const MOST = 64 << 10;

export class Typist {
  /** How many pieces wait; shown while there is no connection. */
  readonly waiting = signal(0);
  private queue: Piece[] = [];
  private size = 0;
  private busy = false;
  private sending: (Piece & { write_id: string }) | undefined;
  private stopped = false;

  constructor(private readonly conn: Conn, private readonly session: string, private readonly failed: (e: CallError) => void) {}

  text(text: string): boolean {
    const last = this.queue.at(-1);
    if (last && 'text' in last && !('keys' in last) && this.size + text.length <= MOST) {
      last.text += text; // typed while the piece before is on its way
      this.size += text.length;
      return this.grown();
    }
    return this.add({ text }, text.length);
  }

  binary(bytes: string): boolean { return this.add({ data_base64: btoa(bytes) }, bytes.length); }

  paste(text: string): boolean { return text === '' || this.add({ paste: text }, 0); }

  keys(text: string, keys: string[]): boolean { return this.add({ text, keys }, text.length); }

  private add(p: Piece, size: number): boolean {
    if (this.size + size > MOST) return false;
    this.queue.push(p);
    this.size += size;
    return this.grown();
  }

  private grown(): boolean {
    this.waiting.value = this.queue.length + (this.sending ? 1 : 0);
    void this.run();
    return true;
  }

  /** Goes on after a new connection. */
  async run(): Promise<void> {
    if (this.busy || this.stopped) return;
    this.busy = true;
    try {
      for (;;) {
        if (!this.sending) {
          const p = this.queue.shift();
          if (!p) break;
          if ('text' in p) this.size -= p.text.length;
          else if ('data_base64' in p) this.size -= atob(p.data_base64).length;
          this.sending = { ...p, write_id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` };
        }
        try {
          const { text, ...rest } = this.sending as { text?: string };
          await this.conn.call('session.input', { session_id: this.session, ...rest, ...(text ? { text } : {}) });
        } catch (e) {
          const cause = e as CallError;
          if (cause.lost || cause.code === 'RUNTIME_UNAVAILABLE') return; // run is called again
          this.failed(cause);
        }
        this.sending = undefined;
        this.waiting.value = this.queue.length;
      }
    } finally {
      this.busy = false;
    }
  }

  stop(): void { this.stopped = true; }
}
