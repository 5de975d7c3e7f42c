// The terminal of the page: xterm.js, set up to show exactly what the model of the daemon shows. This
// file is loaded when the first terminal is opened. It knows bytes and sizes; term.tsx knows the
// connection.
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';
import { Unicode11Addon } from '@xterm/addon-unicode11';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { WebglAddon } from '@xterm/addon-webgl';
import { Terminal } from '@xterm/xterm';

export interface Options {
  dark: boolean;
  font: number;
  contrast: boolean;
  scrollback: number;
  /** Draws with the DOM; else with WebGL where there is one. */
  plain: boolean;
  data(text: string): void;
  /** A key that the daemon turns into bytes, such as shift-enter. */
  key(name: string): void;
  binary(bytes: string): void;
  paste(text: string): void;
  title(text: string): void;
  bell(): void;
  /** A program wants to set the clipboard. */
  clipboard(text: string): void;
  /** A person opens a link that a program printed. */
  link(address: string): void;
  copied(): void;
}

/** Keys that with Ctrl and Alt belong to the page, not to the program. */
const KEPT = ['ArrowLeft', 'Escape', 'KeyF', 'KeyR', 'KeyS', 'KeyK'];

/** Keys that look alike in old terminals, also with modifiers, but not to a program that uses the kitty keyboard protocol. */
const ALIKE: Record<string, string> = { Enter: 'enter', Tab: 'tab', Backspace: 'backspace', Escape: 'esc' };

/** Live WebGL contexts; a browser has few. */
let contexts = 0;
const MAX_CONTEXTS = 4;

// The styles that xterm.js makes at run time carry the nonce of the page's policy.
const nonce = document.querySelector<HTMLMetaElement>('meta[name=style-nonce]')?.content ?? '';
const make = document.createElement.bind(document);
document.createElement = ((tag: string, options?: ElementCreationOptions) => {
  const e = make(tag, options);
  if (tag === 'style') e.nonce = nonce;
  return e;
}) as typeof document.createElement;

const themes = {
  dark: {
    background: '#0d1319', foreground: '#d7dee6', cursor: '#5cc8a5', cursorAccent: '#0d1319', selectionBackground: '#2f4a63',
    black: '#1c252f', red: '#f0716b', green: '#5cc8a5', yellow: '#e0b25a', blue: '#6aa9f5', magenta: '#c790e8', cyan: '#5cc4d8', white: '#c3ccd6',
    brightBlack: '#7d8a98', brightRed: '#ff938d', brightGreen: '#84e0c2', brightYellow: '#f2cc80', brightBlue: '#93c3ff', brightMagenta: '#dab0f5', brightCyan: '#86dcec', brightWhite: '#f4f7fa',
  },
  light: {
    background: '#fbfcfd', foreground: '#1b2733', cursor: '#0b7a5b', cursorAccent: '#fbfcfd', selectionBackground: '#bcd7f2',
    black: '#1b2733', red: '#b3261e', green: '#0b7a5b', yellow: '#8a5a00', blue: '#1a5fb4', magenta: '#8430b0', cyan: '#0b7285', white: '#5a6672',
    brightBlack: '#5a6672', brightRed: '#c8423a', brightGreen: '#138a69', brightYellow: '#9a6a10', brightBlue: '#2a70c8', brightMagenta: '#9540c2', brightCyan: '#147f93', brightWhite: '#3a4652',
  },
};

export class Screen {
  readonly term: Terminal;
  private fit = new FitAddon();
  private search = new SearchAddon();
  private webgl: WebglAddon | undefined;
  private readonly disposed = new AbortController();
  /** Bytes that were written and are not parsed yet. */
  pending = 0;
  /** Whether the program uses the kitty keyboard protocol, which xterm.js does not know. */
  kitty = false;

  constructor(private readonly box: HTMLElement, private readonly o: Options) {
    const term = (this.term = new Terminal({
      cols: 80, rows: 24, scrollback: o.scrollback, allowProposedApi: true, windowOptions: { pushTitle: true, popTitle: true },
      fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace', fontSize: o.font,
      theme: o.dark ? themes.dark : themes.light, minimumContrastRatio: o.contrast ? 4.5 : 1, logLevel: 'off', macOptionIsMeta: true,
      linkHandler: { activate: (_e, address) => o.link(address), allowNonHttpProtocols: true },
    }));
    term.loadAddon(new Unicode11Addon());
    term.unicode.activeVersion = '11';
    this.swallowQueries();
    term.loadAddon(this.fit);
    term.loadAddon(this.search);
    term.loadAddon(new WebLinksAddon((_e, address) => o.link(address)));
    term.open(box);
    term.textarea?.setAttribute('aria-label', 'Terminal input');
    if (!o.plain && contexts < MAX_CONTEXTS) this.useWebGL();
    term.onData(o.data);
    term.onBinary(o.binary);
    term.onTitleChange(o.title);
    term.onBell(o.bell);
    if (matchMedia('(pointer: coarse)').matches) term.onCursorMove(() => this.reveal());
    const { signal } = this.disposed; // the box is used again, for another Screen
    box.addEventListener('paste', (e) => {
      e.preventDefault();
      e.stopPropagation();
      o.paste(e.clipboardData?.getData('text/plain') ?? '');
    }, { capture: true, signal });
    box.addEventListener('drop', (e) => {
      e.preventDefault();
      o.paste(e.dataTransfer?.getData('text/plain') ?? '');
    }, { signal });
    term.attachCustomKeyEventHandler((e) => this.keyMayPass(e));
    this.refreshLinks();
  }

  // xterm.js looks for a link when the mouse enters another cell, and reads the links of a row when
  // the mouse enters another row. Output, a new size and a dialog above the terminal change or clear
  // the link below a mouse that rests. After these, the next event of the mouse visits the opposite
  // corner first. The events that do so do not bubble, so they are not reported to the program.
  private refreshLinks(): void {
    const { term } = this;
    const element = term.element!;
    const screen = element.querySelector('.xterm-screen')!;
    let stale = false;
    const changed = () => { stale = true; };
    term.onWriteParsed(changed);
    term.onResize(changed);
    screen.addEventListener('mouseleave', changed);
    const look = (e: MouseEvent) => {
      if (!stale || !screen.contains(e.target as Node)) return;
      stale = false;
      const { left, right, top, bottom } = screen.getBoundingClientRect();
      const move = (clientX: number, clientY: number) => screen.dispatchEvent(new MouseEvent('mousemove', { clientX, clientY, altKey: e.altKey }));
      move(e.clientX < (left + right) / 2 ? right : left, e.clientY < (top + bottom) / 2 ? bottom : top);
      move(e.clientX, e.clientY);
    };
    element.addEventListener('mousemove', look, true);
    element.addEventListener('mousedown', look, true);
  }

  // What asks the terminal something was answered by the daemon's model already: a second answer
  // would be typed into the program.
  private swallowQueries(): void {
    const p = this.term.parser;
    const yes = () => true;
    for (const id of [
      { final: 'c' }, { prefix: '>', final: 'c' }, { prefix: '=', final: 'c' }, { final: 'n' }, { prefix: '?', final: 'n' },
      { intermediates: '$', final: 'p' }, { prefix: '?', intermediates: '$', final: 'p' }, { final: 'x' }, { prefix: '>', final: 'q' }, { prefix: '?', final: 'u' },
      { intermediates: '$', final: 'w' },
    ]) p.registerCsiHandler(id, yes);
    p.registerCsiHandler({ final: 't' }, (params) => {
      const n = params[0] as number;
      return n >= 11 && n <= 21;
    });
    p.registerDcsHandler({ intermediates: '$', final: 'q' }, yes);
    p.registerDcsHandler({ intermediates: '+', final: 'q' }, yes);
    for (const n of [4, 5, 10, 11, 12, 13, 14, 17, 19]) p.registerOscHandler(n, (data) => data.split(';').includes('?'));
    p.registerOscHandler(52, (data) => {
      const content = data.slice(data.indexOf(';') + 1);
      if (content !== '?' && content !== '') {
        try {
          this.o.clipboard(new TextDecoder().decode(Uint8Array.from(atob(content), (c) => c.charCodeAt(0))));
        } catch { /* not base64 */ }
      }
      return true;
    });
  }

  private keyMayPass(e: KeyboardEvent): boolean {
    if (e.ctrlKey && e.altKey && !e.metaKey && KEPT.includes(e.code)) return false;
    if (e.metaKey && e.code === 'KeyK') return false;
    const copy = e.code === 'KeyC' && ((e.ctrlKey && e.shiftKey) || ((e.ctrlKey || e.metaKey) && !e.altKey && this.term.hasSelection()));
    if (copy) {
      if (e.type === 'keydown' && this.term.hasSelection()) void this.copy();
      e.preventDefault();
      return false;
    }
    const key = this.kitty && !e.isComposing && !e.metaKey && !this.term.options.disableStdin ? ALIKE[e.key] : undefined;
    if (key && (e.shiftKey || e.ctrlKey || e.altKey || key === 'esc')) {
      if (e.type === 'keydown') this.o.key((e.ctrlKey ? 'ctrl-' : '') + (e.altKey ? 'alt-' : '') + (e.shiftKey ? 'shift-' : '') + key);
      e.preventDefault();
      return false;
    }
    if (e.code === 'KeyV' && ((e.ctrlKey && e.shiftKey) || e.metaKey)) return false; // the browser pastes
    return true;
  }

  async copy(): Promise<void> {
    const text = this.term.getSelection();
    if (!text) return;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      document.execCommand('copy'); // without a secure context; xterm.js fills in the selection
    }
    this.term.clearSelection();
    this.o.copied();
  }

  private useWebGL(): void {
    try {
      const gl = new WebglAddon();
      gl.onContextLoss(() => this.dropWebGL());
      this.term.loadAddon(gl);
      this.webgl = gl;
      contexts++;
    } catch { /* the DOM draws */ }
  }

  private dropWebGL(): void {
    if (!this.webgl) return;
    contexts--;
    this.webgl.dispose();
    this.webgl = undefined;
  }

  get renderer(): string { return this.webgl ? 'webgl' : 'dom'; }

  /** Draws a snapshot into an empty terminal. */
  snapshot(cols: number, rows: number, data: string | Uint8Array, size: number): void {
    this.whenDrained(() => {
      this.term.reset();
      this.term.resize(cols, rows);
    });
    this.write(data, size);
  }

  resize(cols: number, rows: number): void { this.whenDrained(() => this.term.resize(cols, rows)); }

  write(data: string | Uint8Array, size: number): void {
    this.pending += size;
    this.term.write(data, () => {
      this.pending -= size;
    });
  }

  /** Calls f when xterm.js, which parses in the background, has parsed everything that was written before, and has the last size. */
  whenDrained(f: () => void): void { this.term.write('', f); }

  /** The size that fills the box at the wanted font size. */
  proposed(): { cols: number; rows: number } | undefined {
    this.font(this.o.font);
    const d = this.fit.proposeDimensions();
    if (!d || !Number.isFinite(d.cols) || !Number.isFinite(d.rows)) return undefined;
    return { cols: Math.max(2, Math.min(d.cols, 1000)), rows: Math.max(1, Math.min(d.rows, 1000)) };
  }

  /** Makes the font smaller until a terminal of a foreign size fits, but never too small to read. */
  shrink(): void {
    const { cols, rows } = this.term;
    for (let size = this.o.font; size >= 9; size--) {
      this.font(size);
      const d = this.fit.proposeDimensions();
      if (!d || !Number.isFinite(d.cols) || (d.cols >= cols && d.rows >= rows)) return;
    }
  }

  /** Scrolls a box that is smaller than the terminal, as above the keyboard of a phone, to the row of the cursor. */
  reveal(): void {
    const { box, term } = this;
    const drawn = box.scrollHeight > box.clientHeight ? term.element?.querySelector('.xterm-screen')?.getBoundingClientRect() : undefined;
    if (!drawn) return;
    const row = drawn.height / term.rows;
    const top = drawn.top - box.getBoundingClientRect().top + term.buffer.active.cursorY * row;
    if (top < 0) box.scrollTop += top;
    else if (top + row > box.clientHeight) box.scrollTop += top + row - box.clientHeight;
  }

  private font(size: number): void {
    if (this.term.options.fontSize !== size) this.term.options.fontSize = size;
  }

  setFont(size: number): void { this.o.font = size; }
  setTheme(dark: boolean): void { this.term.options.theme = dark ? themes.dark : themes.light; }
  setScreenReader(on: boolean): void { this.term.options.screenReaderMode = on; }
  setReadOnly(on: boolean): void {
    this.term.options.disableStdin = on;
    this.term.options.cursorBlink = !on;
    this.term.textarea?.setAttribute('aria-readonly', String(on));
  }

  /** Looks for a text; reports whether it was found. */
  find(text: string, back: boolean, grow: boolean): boolean {
    return back ? this.search.findPrevious(text) : this.search.findNext(text, { incremental: grow });
  }

  unfind(): void {
    this.search.clearDecorations();
    this.term.clearSelection();
  }

  focus(): void { this.term.focus(); }

  /** The rows as text, without trailing blanks, and the cursor, for tests. */
  rows(): { rows: string[]; x: number; y: number } {
    const b = this.term.buffer.active;
    const rows = Array.from({ length: this.term.rows }, (_, i) => b.getLine(b.baseY + i)?.translateToString(true).trimEnd() ?? '');
    return { rows, x: b.cursorX, y: b.cursorY };
  }

  dispose(): void {
    this.disposed.abort();
    this.dropWebGL();
    this.term.dispose();
    this.box.replaceChildren();
  }
}
