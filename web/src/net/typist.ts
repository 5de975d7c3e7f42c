// What is typed into a terminal of the page, in order and exactly once: the typist of the TypeScript
// SDK. Without a connection, input waits for the next one.
import { signal } from '@preact/signals';
import { Typist as Ordered, type TrlError } from '../../../sdk/typescript/src/websocket.js';
import type { Conn } from './conn.js';

export class Typist {
  /** How many pieces wait; shown while there is no connection. */
  readonly waiting = signal(0);
  private readonly typist: Ordered;

  constructor(conn: Conn, session: string, failed: (e: TrlError) => void) {
    this.typist = new Ordered((input) => conn.call('session.input', { session_id: session, ...input }), {
      waits: true,
      onRefused: (e) => failed(e as TrlError),
      onChange: () => (this.waiting.value = this.typist.calls),
    });
  }

  /** These report whether there is room for the input. What has none is refused, not lost in silence. */
  text(text: string): boolean { return this.add(text, []); }

  binary(bytes: string): boolean { return this.add(Uint8Array.from(bytes, (c) => c.charCodeAt(0)), []); }

  keys(text: string, keys: string[]): boolean { return this.add(text, keys); }

  paste(text: string): boolean {
    if (text !== '') void this.typist.paste(text);
    return true;
  }

  private add(data: string | Uint8Array, keys: string[]): boolean {
    if (!this.typist.hasRoom(data.length)) return false;
    void this.typist.type(data, ...keys);
    return true;
  }

  /** Goes on after a new connection. */
  run(): void { this.typist.resume(); }

  stop(): void { this.typist.close(); }
}
