import type { Terminal } from "./terminal.js";
import type { SessionInputResult } from "./results.js";

/** The most characters that one call carries. */
const mostAtOnce = 64 * 1024;

/** What waits to be typed. */
interface Waiting {
  text: string;
  paste: boolean;
  keys: string[];
  done: { resolve(): void; reject(error: unknown): void }[];
}

/**
 * Types into a terminal in order and once, however fast its caller is. One call is under way at a
 * time; what is typed meanwhile is joined and goes with the next one. A call that is lost with its
 * connection is sent again with the same id.
 */
export class Typist {
  #terminal: Terminal;
  #queue: Waiting[] = [];
  #busy = false;
  #failed: { error: unknown } | undefined;

  /** For Terminal. */
  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** How many characters and keys wait to be typed, including those that are on their way. */
  get waiting(): number {
    return this.#queue.reduce((n, one) => n + one.text.length + one.keys.length, 0);
  }

  /** Types text. The promise is fulfilled when it is typed; callers need not wait for it. */
  type(text: string): Promise<void> {
    return this.#add({ text, paste: false, keys: [] });
  }

  /** Pastes text: between marks, if the program asked for them. */
  paste(text: string): Promise<void> {
    return this.#add({ text, paste: true, keys: [] });
  }

  /** Presses keys. */
  keys(...keys: string[]): Promise<void> {
    return this.#add({ text: "", paste: false, keys });
  }

  #add(input: Omit<Waiting, "done">): Promise<void> {
    if (this.#failed) return Promise.reject(this.#failed.error);
    const typed = new Promise<void>((resolve, reject) => {
      const done = { resolve, reject };
      const last = this.#queue.length > (this.#busy ? 1 : 0) ? this.#queue[this.#queue.length - 1] : undefined;
      // Text joins text; a paste and keys stay as they are.
      if (last && !last.paste && last.keys.length === 0 && !input.paste && input.keys.length === 0 && last.text.length + input.text.length <= mostAtOnce) {
        last.text += input.text;
        last.done.push(done);
      } else {
        this.#queue.push({ ...input, done: [done] });
      }
    });
    typed.catch(() => {}); // a caller that does not wait must not end the process
    if (!this.#busy) void this.#send();
    return typed;
  }

  async #send(): Promise<void> {
    this.#busy = true;
    for (let next = this.#queue[0]; next; next = this.#queue[0]) {
      try {
        await this.#call(next);
      } catch (error) {
        // What follows must not be typed without it.
        this.#failed = { error };
        for (const one of this.#queue.splice(0)) for (const { reject } of one.done) reject(error);
        break;
      }
      this.#queue.shift();
      for (const { resolve } of next.done) resolve();
    }
    this.#busy = false;
  }

  #call({ text, paste, keys }: Waiting): Promise<SessionInputResult> {
    if (paste) return this.#terminal.paste(text);
    return keys.length > 0 ? this.#terminal.keys(...keys) : this.#terminal.input(text);
  }
}
