// Plays the recording of a terminal on xterm.js: the same terminal as the live one, so that it shows
// the same. A place in a recording is a part of the address.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { RecordingReadResult } from '../../../sdk/typescript/src/types.js';
import { control, epoch, sessions } from '../net/sessions.js';
import { Cast, clock, sizeOf } from '../term/cast.js';
import type { Screen } from '../term/term.js';
import { attempt, bytes, Empty, plain } from '../ui/parts.js';
import { isDark, prefs } from '../ui/prefs.js';
import { route, setQuery } from '../ui/route.js';
import { loadTerminal } from './terminal.js';

const PIECE = 1 << 20; // so much is written to the terminal before it must have drawn it
const MOST = 256 << 20; // a longer recording is played up to here
const FOLLOW_MS = 500; // how often a recording that still grows is read
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const IDLES = [0, 0.5, 1, 2, 5];

class Player {
  readonly cast = new Cast();
  /** Seconds since the beginning. */
  readonly at = signal(0);
  readonly end = signal(0);
  readonly playing = signal(false);
  readonly speed = signal(1);
  readonly idle = signal(2);
  readonly ready = signal(false);
  readonly loaded = signal('');
  readonly live = signal(false);
  readonly error = signal('');
  readonly size = signal('');
  readonly exit = signal('');
  screen: Screen | undefined;
  private shown = 0; // events that the terminal was given
  private wanted = 0; // events that it should have been given
  private resized = false; // the font does not fit the size yet
  private busy = false;
  private reading = false;
  private over = false; // nothing more is read
  private offset = 0;
  private readonly drawn: Promise<void>;
  private frame = 0;
  private last = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  private observer: ResizeObserver | undefined;

  constructor(readonly id: string, private readonly box: HTMLElement, private start: number | undefined) {
    this.drawn = this.draw();
    this.drawn.catch(() => undefined); // follow reports it
  }

  private async draw(): Promise<void> {
    const { Screen } = await loadTerminal();
    if (this.closed) return;
    const none = () => undefined;
    const p = prefs.value;
    this.screen = new Screen(this.box, { dark: isDark(), font: p.font, contrast: p.contrast, scrollback: 1000, plain: p.plain, data: none, key: none, binary: none, paste: none, title: none, bell: none, clipboard: none, link: none, copied: none });
    this.screen.setReadOnly(true);
    this.screen.term.attachCustomKeyEventHandler(() => false); // the keys are those of the player
    this.observer = new ResizeObserver(() => this.screen?.shrink());
    this.observer.observe(this.box);
    Object.assign(this.box, { trlScreen: this.screen }); // for tests
  }

  /** Reads what there is of the recording from where the last call ended. */
  private async read(): Promise<void> {
    for (;;) {
      const r = await control.call<RecordingReadResult>('recording.read', { recording_id: this.id, offset: this.offset });
      if (this.closed) return;
      this.offset += new TextEncoder().encode(r.data).length;
      this.cast.add(r.data);
      this.end.value = this.cast.end;
      if (r.data === '' || this.offset >= r.total || this.offset >= MOST) {
        this.live.value = !r.complete && this.offset < MOST;
        break;
      }
      this.loaded.value = `${bytes(this.offset)} of ${bytes(r.total)}`;
    }
    this.loaded.value = this.offset >= MOST ? `only the first ${bytes(this.offset)} are played` : '';
    const x = this.cast.events[this.cast.events.length - 1];
    this.exit.value = x?.code === 'x' ? x.data : '';
  }

  private begin(): void {
    const h = this.cast.header;
    if (!h && this.live.value) return;
    if (!h) throw new Error('The recording is empty.');
    if (h.idle > 0) this.idle.value = h.idle;
    this.reset();
    this.ready.value = true;
    this.seek(this.start ?? (this.live.value ? this.cast.end : 0));
    if (this.start === undefined) this.play();
  }

  /**
   * Reads the recording, and reads on while it grows. A player at the end stays at the end. A lost
   * connection ends it; the page calls it again after each connect.
   */
  async follow(): Promise<void> {
    clearTimeout(this.timer);
    if (this.closed || this.reading || this.over) return;
    this.reading = true;
    try {
      const atEnd = this.at.value >= this.cast.end;
      if (!this.ready.value) await Promise.all([this.drawn, this.read()]);
      else if (!document.hidden) await this.read();
      if (this.closed) return;
      if (!this.ready.value) this.begin();
      else if (atEnd && this.playing.value) this.show(this.cast.end);
      this.over = !this.live.value;
    } catch (e) {
      if ((e as { lost?: boolean }).lost) return;
      this.over = true;
      this.live.value = false;
      if (!this.ready.value) this.error.value = (e as Error).message;
      else this.loaded.value = `the rest cannot be played: ${(e as Error).message}`;
    } finally {
      this.reading = false;
    }
    if (!this.over) this.timer = setTimeout(() => void this.follow(), FOLLOW_MS);
  }

  private reset(): void {
    const h = this.cast.header!;
    const size = sizeOf(`${h.cols}x${h.rows}`) ?? { cols: 80, rows: 24 };
    this.screen!.snapshot(size.cols, size.rows, '', 0);
    this.size.value = `${size.cols}×${size.rows}`;
    this.shown = 0;
    this.resized = true;
  }

  private show(at: number): void {
    this.at.value = Math.max(0, Math.min(at, this.cast.end));
    this.wanted = this.cast.count(this.at.value);
    this.pump();
  }

  // Writes to the terminal what it lacks, or begins anew when it has too much. It writes many events in
  // pieces, and follows a new position at once.
  private pump(): void {
    const s = this.screen;
    if (!s || this.busy || this.closed) return;
    if (this.wanted < this.shown) this.reset();
    if (this.wanted === this.shown && !this.resized) return;
    let text = '';
    const flush = () => { if (text) s.write(text, text.length); text = ''; };
    let n = 0;
    for (; this.shown < this.wanted && n < PIECE; this.shown++) {
      const e = this.cast.events[this.shown]!;
      if (e.code === 'o') { text += e.data; n += e.data.length; }
      const size = e.code === 'r' ? sizeOf(e.data) : undefined;
      if (size) {
        flush();
        s.resize(size.cols, size.rows);
        this.resized = true;
        this.size.value = `${size.cols}×${size.rows}`;
      }
    }
    flush();
    this.busy = true;
    s.whenDrained(() => {
      this.busy = false;
      if (this.closed) return;
      if (this.resized) s.shrink();
      this.resized = false;
      this.pump();
    });
  }

  /** Whether the terminal shows the place of the clock. */
  get settled(): boolean { return this.ready.value && !this.busy && !this.resized && this.shown === this.wanted; }

  seek(at: number): void {
    this.show(at);
    this.last = performance.now();
  }

  play(): void {
    if (this.at.value >= this.cast.end && !this.live.value) this.show(0);
    this.playing.value = true;
    this.last = performance.now();
    const tick = (now: number) => {
      if (!this.playing.value || this.closed) return;
      const by = Math.min(1, Math.max(0, (now - this.last) / 1000)) * this.speed.value; // a hidden page has no frames
      this.last = now;
      this.show(this.cast.advance(this.at.value, by, this.idle.value));
      if (this.at.value >= this.cast.end && !this.live.value) this.playing.value = false;
      else this.frame = requestAnimationFrame(tick);
    };
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(tick);
  }

  pause(): void {
    this.playing.value = false;
    setQuery('t', this.at.value.toFixed(3));
  }

  /** Reads all of it again, as a file. */
  async save(): Promise<void> {
    const parts: string[] = [];
    for (let offset = 0; ;) {
      const r = await control.call<RecordingReadResult>('recording.read', { recording_id: this.id, offset });
      parts.push(r.data);
      offset += new TextEncoder().encode(r.data).length;
      if (r.data === '' || offset >= r.total) break;
    }
    const a = document.createElement('a');
    a.href = URL.createObjectURL(new Blob(parts, { type: 'application/x-asciicast' }));
    a.download = `${this.id}.cast`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
  }

  close(): void {
    this.closed = true;
    this.playing.value = false;
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.observer?.disconnect();
    this.screen?.dispose();
  }
}

export function PlayerPage({ id }: { id: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [p, setPlayer] = useState<Player>();
  useEffect(() => {
    const t = Number.parseFloat(route.value.query.get('t') ?? '');
    const made = new Player(id, box.current!, Number.isFinite(t) ? t : undefined);
    setPlayer(made);
    Object.assign(box.current!, { trlPlayer: made }); // for tests
    return () => made.close();
  }, [id]);
  useEffect(() => void p?.follow(), [p, epoch.value]);
  const dark = isDark();
  useEffect(() => p?.screen?.setTheme(dark), [p, dark]);

  const to = (at: number) => {
    if (!p) return;
    p.seek(at);
    if (!p.playing.value) setQuery('t', p.at.value.toFixed(3));
  };
  const toggle = () => (p?.playing.value ? p.pause() : p?.play());
  const faster = (by: number) => { if (p) p.speed.value = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(p.speed.value) + by))]!; };
  const marker = (by: number) => {
    const list = p!.cast.markers.map((m) => m.at);
    const now = p!.at.value;
    const next = by > 0 ? list.find((t) => t > now + 0.001) : list.filter((t) => t < now - 0.5).pop();
    if (next !== undefined) to(next);
  };
  const keys = (e: KeyboardEvent) => {
    if (!p?.ready.value || e.ctrlKey || e.altKey || e.metaKey || (e.target as Element).closest('select, input:not([type=range])')) return;
    const onButton = (e.target as Element).closest('button, a') !== null;
    const now = p.at.value;
    const run: Record<string, () => void> = {
      ...(onButton ? {} : { ' ': toggle }), k: toggle, ArrowLeft: () => to(now - 5), ArrowRight: () => to(now + 5), Home: () => to(0), End: () => to(p.end.value), '<': () => faster(-1), '>': () => faster(1), '[': () => marker(-1), ']': () => marker(1),
    };
    const f = run[e.key] ?? (/^\d$/.test(e.key) ? () => to((p.end.value * Number(e.key)) / 10) : undefined);
    if (!f) return;
    e.preventDefault();
    e.stopPropagation();
    f();
  };
  const h = p?.cast.header;
  const ready = p?.ready.value ?? false;
  const end = p?.end.value ?? 0;
  const now = p?.at.value ?? 0;
  const markers = ready ? p!.cast.markers : [];
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => { if (ready) button.current?.focus(); }, [ready]);
  return (
    <section class="page terminal player" aria-label="Recording" onKeyDown={keys}>
      <div class="bar head">
        <a class="back" href="#/recordings" aria-label="Back to all recordings">←</a>
        <h1 class="clip">{plain(h?.title || sessions.value.get(id)?.name || h?.command || id)}</h1>
        {p?.live.value && <span class="state s-running"><span aria-hidden="true">●</span> live</span>}
        <span class="grow dim clip">{ready ? p!.size.value : ''}{p?.loaded.value ? ` · ${p.loaded.value}` : ''}{ready && !p!.live.value && p!.exit.value !== '' && now >= end ? ` · ended with status ${plain(p!.exit.value)}` : ''}</span>
        {ready && <button class="small" onClick={() => void attempt(() => p!.save())}>Download</button>}
      </div>
      {p?.error.value && <Empty><h2>This recording cannot be played</h2><p class="wrap">{p.error.value}</p><p><a href="#/recordings">All recordings</a></p></Empty>}
      <div class="screen" ref={box} hidden={!!p?.error.value} data-ready={ready ? 'yes' : 'no'} />
      {ready && (
        <div class="bar controls" role="group" aria-label="Player">
          <button class="primary" ref={button} aria-label={p!.playing.value ? 'Pause' : 'Play'} title="Space" onClick={toggle}>{p!.playing.value ? '❚❚' : '▶'}</button>
          <span class="mono time">{clock(now, end)} / {clock(end, end)}</span>
          <span class="track grow">
            <input type="range" aria-label="Position in the recording" min={0} max={end} step="any" value={now} aria-valuetext={`${clock(now, end)} of ${clock(end, end)}`} onInput={(e) => to(Number(e.currentTarget.value))} />
            {end > 0 && markers.map((m, i) => <button key={i} class="marker" style={{ left: `${(m.at / end) * 100}%` }} title={plain(m.data) || 'marker'} aria-label={`Marker ${plain(m.data)} at ${clock(m.at, end)}`} onClick={() => to(m.at)} />)}
          </span>
          <label>Speed <select aria-label="Speed" value={String(p!.speed.value)} onChange={(e) => (p!.speed.value = Number(e.currentTarget.value))}>{SPEEDS.map((s) => <option key={s} value={String(s)}>{s}×</option>)}</select></label>
          <label class="wide-only">Pauses <select aria-label="Longest pause" value={String(p!.idle.value)} onChange={(e) => (p!.idle.value = Number(e.currentTarget.value))}>{[...new Set([...IDLES, p!.idle.value])].map((s) => <option key={s} value={String(s)}>{s === 0 ? 'as recorded' : `at most ${s} s`}</option>)}</select></label>
        </div>
      )}
    </section>
  );
}
