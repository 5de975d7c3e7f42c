// One attached terminal: its connection, its size and what is typed into it.
import { signal, useSignalEffect } from '@preact/signals';
import type { SessionInfo, Viewer as ViewerInfo } from '../../../sdk/typescript/src/types.js';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Conn, type Push, type TrlError } from '../net/conn.js';
import { shared } from '../net/login.js';
import { mayWrite } from '../net/sessions.js';
import { Typist } from '../net/typist.js';
import type { Screen } from '../term/term.js';
import { askFirst, copyText, plain, toast } from '../ui/parts.js';
import { coarse, isDark, label, lineMode, prefer, prefs } from '../ui/prefs.js';
import { go, href } from '../ui/route.js';

/** So many bytes may wait to be drawn; with more the page asks for a new picture instead. */
const BEHIND = 8 << 20;
const BIG_PASTE = 1 << 20;
/** So long a page is hidden before its terminal is detached. */
const AWAY = 60_000;
const ENDED = 'The program has ended.';

const encoder = new TextEncoder();

/** Loads the file with xterm.js. */
export function loadTerminal(): Promise<typeof import('../term/term.js')> {
  const name = './term.js'; // a file of its own, beside this one
  return import(name) as Promise<typeof import('../term/term.js')>;
}

class Viewer {
  readonly owner = signal('');
  readonly id = signal('');
  readonly size = signal({ cols: 0, rows: 0 });
  /** All viewers of the terminal, this one too. */
  readonly viewers = signal<readonly ViewerInfo[]>([]);
  readonly title = signal('');
  readonly bells = signal(0);
  /** The sentence that says why nothing more comes. */
  readonly ended = signal('');
  readonly ready = signal(false);
  readonly conn: Conn;
  readonly typist: Typist;
  screen: Screen | undefined;
  private offset: number | undefined;
  private early: Push[] = [];
  private sizeTimer: ReturnType<typeof setTimeout> | undefined;
  private sent = '';
  private observer: ResizeObserver | undefined;
  private allowCopy = false;
  private stream = '';
  private awayTimer: ReturnType<typeof setTimeout> | undefined;
  /** Detached, because the page has been hidden for a while. */
  private away = false;
  private closed = false;
  private take = false;
  /** Attaches so far: the answer to an older one is too late. */
  private attempts = 0;
  /** Whether the terminal may take the size of this window. A phone asks for it only when told to. */
  private sized = !coarse;

  constructor(readonly session: string, private readonly box: HTMLElement, readonly readOnly: boolean) {
    this.conn = new Conn(() => void this.attach());
    this.typist = new Typist(this.conn, session, (e) => toast(e.message, { bad: true }));
    document.addEventListener('visibilitychange', this.seen);
    this.seen(); // a tab may be opened in the background
    void this.draw();
  }

  // A terminal that is out of sight for a while is not drawn, and its window does not hold the size.
  private readonly seen = (): void => {
    clearTimeout(this.awayTimer);
    if (document.hidden) {
      this.awayTimer = setTimeout(() => {
        this.away = true;
        this.id.value = '';
        this.conn.end(this.stream);
      }, AWAY);
    } else if (this.away) {
      this.away = false;
      if (this.conn.state.value === 'online') void this.attach();
    }
  };

  private async draw(): Promise<void> {
    let module;
    try {
      module = await loadTerminal();
    } catch {
      toast('This version of the page is no longer served. Reload the page.', { bad: true, stay: true, action: { label: 'Reload', run: () => location.reload() } });
      return;
    }
    if (this.closed) return;
    const p = prefs.value;
    this.screen = new module.Screen(this.box, {
      dark: isDark(), font: p.font, contrast: p.contrast, scrollback: 1000, plain: p.plain,
      data: (text) => this.type(() => this.typist.text(text)),
      key: (name) => this.type(() => this.typist.keys('', [name])),
      binary: (data) => this.type(() => this.typist.binary(data)),
      paste: (text) => this.paste(text),
      title: (text) => (this.title.value = text),
      bell: () => this.bells.value++,
      clipboard: (text) => this.copyFor(text),
      link: (address) => openLink(address),
      copied: () => toast('Copied.'),
    });
    this.screen.setReadOnly(this.readOnly);
    for (const e of this.early.splice(0)) this.receive(e);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.box);
    this.ready.value = true;
    this.fit();
    if (!this.readOnly && !lineMode()) this.screen.focus();
    Object.assign(this.box, { trlScreen: this.screen }); // for tests
  }

  private async attach(): Promise<void> {
    if (this.away) return this.typist.run(); // what was typed needs no viewer
    const attempt = ++this.attempts;
    if (this.screen) this.screen.kitty = false; // a stream begins without modes
    const size = this.screen?.proposed();
    this.sent = size ? `${size.cols}x${size.rows}` : '';
    try {
      const start = await this.conn.stream('session.attach', {
        session_id: this.session, read_only: this.readOnly, modes: true, ...(shared.value ? {} : { label: label(), viewers: true }), ...(this.offset === undefined ? { scrollback: 1000 } : { from_offset: this.offset }),
        ...(size && this.sized && !this.readOnly ? { size, ...(this.take ? { take_size: true } : {}) } : {}),
      }, (p) => this.receive(p));
      if (this.away || attempt !== this.attempts) return this.conn.end(start.stream_id);
      this.stream = start.stream_id;
      this.id.value = start.viewer_id ?? '';
      this.ended.value = '';
      this.take = false;
      this.typist.run();
      this.fit();
    } catch (e) {
      const { lost, code, message } = e as TrlError;
      if (!lost) this.ended.value = code === 'SESSION_TERMINATED' ? ENDED : `The terminal cannot be shown: ${plain(message)}`;
    }
  }

  private receive(p: Push): void {
    const s = this.screen;
    if (!s) {
      this.early.push(p);
      return;
    }
    const data = p.data_base64 ? Uint8Array.from(atob(p.data_base64), (c) => c.charCodeAt(0)) : (p.data ?? '');
    const size = typeof data === 'string' ? encoder.encode(data).length : data.length;
    switch (p.type as string) {
      case 'snapshot':
        s.snapshot(p.cols!, p.rows!, data, size);
        this.offset = p.offset;
        this.resized(p);
        break;
      case 'output':
        s.write(data, size);
        this.offset = p.offset! + size;
        if (s.pending > BEHIND) this.catchUp();
        break;
      case 'resize':
        s.resize(p.cols!, p.rows!);
        this.offset = p.offset;
        this.resized(p);
        break;
      case 'viewers':
        this.viewers.value = p.viewers ?? [];
        break;
      case 'modes':
        s.kitty = (p.modes?.kitty_flags ?? 0) !== 0;
        break;
      case 'exit':
        this.ended.value = `The program ${p.signal ? `was ended by ${plain(p.signal)}` : `ended with status ${p.exit_code}`}. This is its last screen.`;
        break;
      case 'error':
        if (p.error?.code !== 'RUNTIME_UNAVAILABLE') this.ended.value = p.error && p.error.code !== 'SESSION_TERMINATED' ? `The terminal cannot be shown any more: ${plain(p.error.message)}` : ENDED;
        else this.conn.restart();
        break;
    }
  }

  // Too much waits to be drawn: the newest picture is worth more than every one in between.
  private catchUp(): void {
    this.offset = undefined;
    this.conn.restart();
  }

  private resized(p: Push): void {
    this.owner.value = p.owner_id ?? '';
    this.size.value = { cols: p.cols!, rows: p.rows! };
    this.screen?.whenDrained(() => this.fit());
  }

  get owns(): boolean { return this.id.value !== '' && this.owner.value === this.id.value; }

  /** Tells the daemon how large this window is, and makes a foreign size fit into it. */
  fit(): void {
    clearTimeout(this.sizeTimer);
    this.sizeTimer = setTimeout(() => {
      const s = this.screen;
      if (!s || document.hidden || this.closed || this.box.clientWidth === 0) return;
      const size = s.proposed();
      const foreign = this.readOnly || !this.owns;
      if (size && this.sized && !this.readOnly && this.id.value && this.sent !== `${size.cols}x${size.rows}`) {
        this.sent = `${size.cols}x${size.rows}`;
        void this.conn.call('session.resize', { session_id: this.session, viewer_id: this.id.value, ...size }).catch(() => (this.sent = ''));
      }
      if (foreign) s.shrink();
      s.reveal();
    }, 100);
  }

  /** Makes this window the one that determines the size. A viewer requests that when it attaches. */
  takeSize(): void {
    this.take = this.sized = true;
    this.conn.restart();
  }

  private type(f: () => boolean): void {
    if (this.readOnly || this.ended.value) return;
    if (!f()) toast('Too much is waiting for the connection; this was not typed.', { bad: true });
  }

  paste(text: string): void {
    if (this.readOnly || text === '') return;
    const run = () => this.type(() => this.typist.paste(text));
    if (text.length <= BIG_PASTE) run();
    else askFirst({ title: 'Paste a lot of text?', text: `The clipboard holds ${Math.round(text.length / 1e6)} million characters.`, yes: 'Paste', run });
  }

  private copyFor(text: string): void {
    if (this.allowCopy) {
      void copyText(text);
      return;
    }
    const shown = plain(text.length > 60 ? text.slice(0, 60) + '…' : text);
    toast(`The program wants to copy “${shown}”.`, { stay: true, action: { label: 'Allow', run: () => { this.allowCopy = true; void copyText(text); } } });
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.sizeTimer);
    clearTimeout(this.awayTimer);
    document.removeEventListener('visibilitychange', this.seen);
    this.observer?.disconnect();
    this.typist.stop();
    this.conn.close();
    this.screen?.dispose();
  }
}

/** Opens a link that a program printed: only the usual kinds, and the person sees where it leads. */
function openLink(address: string): void {
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return;
  }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) {
    toast(`Links of the kind ${plain(url.protocol)} are not opened.`, { bad: true });
    return;
  }
  askFirst({ title: 'Open this link?', text: plain(url.href), yes: 'Open', run: () => void window.open(url.href, '_blank', 'noopener,noreferrer') });
}

const bar: [string, string, string[] | string][] = [
  ['Esc', 'Esc', ['esc']], ['Tab', 'Tab', ['tab']], ['^C', '^C, Control C', ['ctrl-c']], ['^D', '^D, Control D', ['ctrl-d']], ['↑', 'Up', ['up']], ['↓', 'Down', ['down']],
  ['←', 'Left', ['left']], ['→', 'Right', ['right']], ['|', 'Pipe', '|'], ['~', 'Tilde', '~'], ['/', 'Slash', '/'], ['⏎', 'Enter', ['enter']],
];

export function TerminalView({ session }: { session: SessionInfo }) {
  const box = useRef<HTMLDivElement>(null);
  const [viewer, setViewer] = useState<Viewer>();
  const [readOnly, setReadOnly] = useState(!mayWrite.value);
  const [finding, setFinding] = useState(false);
  const [needle, setNeedle] = useState('');
  const [found, setFound] = useState(true);
  const [reader, setReader] = useState(false);
  const id = session.session_id;

  useLayoutEffect(() => {
    const v = new Viewer(id, box.current!, readOnly);
    setViewer(v);
    return () => v.close();
  }, [id, readOnly]);

  useSignalEffect(() => {
    const dark = isDark();
    viewer?.screen?.setTheme(dark);
  });

  useEffect(() => {
    const keys = (e: KeyboardEvent) => {
      if (!e.ctrlKey || !e.altKey) return;
      const run: Record<string, () => void> = {
        KeyF: () => setFinding((f) => !f), KeyR: () => setReader((r) => !r), KeyS: () => viewer?.takeSize(), ArrowLeft: () => go(), Escape: () => go(),
      };
      const f = run[e.code];
      if (!f) return;
      e.preventDefault();
      f();
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, [viewer]);
  useEffect(() => viewer?.screen?.setScreenReader(reader), [viewer, reader, viewer?.ready.value]);

  const state = viewer?.conn.state.value ?? 'connecting';
  const waiting = viewer?.typist.waiting.value ?? 0;
  const size = viewer?.size.value;
  const owns = viewer !== undefined && viewer.id.value !== '' && viewer.owner.value === viewer.id.value;
  const others = (viewer?.viewers.value ?? []).filter((v) => v.viewer_id !== viewer!.id.value);
  const named = (v: ViewerInfo) => plain(v.label || 'unnamed');
  const holder = others.find((v) => v.owner);
  const over = viewer?.ended.value || (session.state === 'terminated' ? ENDED : '');
  const font = (n: number) => {
    prefer({ font: Math.max(9, Math.min(28, prefs.value.font + n)) });
    viewer?.screen?.setFont(prefs.value.font);
    viewer?.fit();
  };
  const search = (text: string, back: boolean, grow = false) => setFound(text === '' || (viewer?.screen?.find(text, back, grow) ?? true));

  return (
    <section class="terminal" aria-label={`Terminal ${session.name || id}`}>
      <div class="bar">
        <span class="grow dim clip" title="Size of the terminal">
          {size && size.cols > 0 ? `${size.cols}×${size.rows}` : ''}{owns ? ' (yours)' : holder ? ` (of ${named(holder)})` : ''}
          {viewer?.title.value ? ` · ${plain(viewer.title.value)}` : ''}
          {viewer && viewer.bells.value > 0 ? ` · bell ×${viewer.bells.value}` : ''}
        </span>
        {others.length > 0 && !over && <span class="chip clip who" title={others.map(named).join('\n')}>with {others.map((v) => named(v) + (v.read_only ? ' (watching)' : '')).join(', ')}</span>}
        {!owns && !readOnly && !over && size && size.cols > 0 && <button class="small" onClick={() => viewer?.takeSize()} title="Ctrl+Alt+S">Take size</button>}
        {readOnly
          ? <span class="badge">read-only</span>
          : null}
        {session.terminal?.recording && !shared.value && <a class="link" href={href('r', id)}>Recording</a>}
        {mayWrite.value && !over && <button class="small" onClick={() => setReadOnly(!readOnly)}>{readOnly ? 'Type here' : 'Watch only'}</button>}
        <button class="small" aria-pressed={finding} onClick={() => setFinding(!finding)} title="Ctrl+Alt+F">Find</button>
        <button class="small wide-only" aria-pressed={reader} onClick={() => setReader(!reader)} title="Ctrl+Alt+R: for screen readers">Reader</button>
        <button class="icon" aria-label="A− smaller text" onClick={() => font(-1)}>A−</button>
        <button class="icon" aria-label="A+ larger text" onClick={() => font(1)}>A+</button>
      </div>
      {finding && (
        <form class="bar" role="search" onSubmit={(e) => { e.preventDefault(); search(needle, false); }}>
          <input class="grow" aria-label="Find in this terminal" placeholder="Find" ref={(e) => { if (e && !e.dataset['seen']) { e.dataset['seen'] = 'yes'; e.focus(); } }} value={needle}
            onInput={(e) => { setNeedle(e.currentTarget.value); search(e.currentTarget.value, false, true); }}
            onKeyDown={(e) => {
              if (e.key === 'Escape') { setFinding(false); viewer?.screen?.unfind(); viewer?.screen?.focus(); }
              if (e.key === 'Enter' && e.shiftKey) { e.preventDefault(); search(needle, true); }
            }} />
          {!found && <span class="bad">not found</span>}
          <button type="button" class="small" onClick={() => search(needle, true)}>Previous</button>
          <button type="submit" class="small">Next</button>
        </form>
      )}
      <div class={'screen' + (state !== 'online' || over ? ' pale' : '')} ref={box} data-renderer={viewer?.ready.value ? viewer.screen?.renderer : undefined} data-ready={viewer?.ready.value ? 'yes' : 'no'} />
      {over
        ? <div class="note" role="status">{over}</div>
        : state !== 'online' && <div class="note warn" role="status">No connection{waiting > 0 ? ` · ${waiting} ${waiting === 1 ? 'input is waiting; it' : 'inputs are waiting; each'} will be typed once` : ''}</div>}
      {!readOnly && !over && lineMode() && viewer && <LineMode viewer={viewer} />}
    </section>
  );
}

function LineMode({ viewer }: { viewer: Viewer }) {
  const [text, setText] = useState('');
  const send = () => {
    viewer.typist.keys(text, ['enter']);
    setText('');
  };
  return (
    <div class="line">
      <div class="keys" role="toolbar" aria-label="Keys">
        {bar.map(([label, name, keys]) => (
          <button key={label} type="button" aria-label={name} onClick={() => (typeof keys === 'string' ? viewer.typist.text(keys) : viewer.typist.keys('', keys))}>{label}</button>
        ))}
        <button type="button" onClick={() => void navigator.clipboard?.readText().then((t) => viewer.paste(t), () => toast('Long-press the field below to paste.'))}>Paste</button>
      </div>
      <form class="bar" onSubmit={(e) => { e.preventDefault(); send(); }}>
        <input class="grow" aria-label="A line for the program" placeholder="Type a line" autocomplete="off" autocorrect="off" autocapitalize="off" spellcheck={false} enterkeyhint="send"
          value={text} onInput={(e) => setText(e.currentTarget.value)} />
        <button type="submit" class="primary">Send</button>
      </form>
    </div>
  );
}
