// The parts that all views are made of.
import { signal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Toast { id: number; text: string; bad: boolean; action?: { label: string; run(): void } }
export const toasts = signal<Toast[]>([]);
let lastToast = 0;

export function toast(text: string, o: { bad?: boolean; action?: Toast['action']; stay?: boolean } = {}): void {
  const id = ++lastToast;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad: o.bad ?? false, ...(o.action ? { action: o.action } : {}) }];
  if (!o.stay) setTimeout(() => dropToast(id), o.bad ? 12_000 : 5_000);
}
export function dropToast(id: number): void { toasts.value = toasts.value.filter((t) => t.id !== id); }

/** Runs something that calls the daemon, and shows why it did not work in the daemon's own words. */
export async function attempt<T>(f: () => Promise<T>): Promise<T | undefined> {
  try {
    return await f();
  } catch (e) {
    toast((e as Error).message, { bad: true });
    return undefined;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((t) => (
        <div key={t.id} class={'toast' + (t.bad ? ' bad' : '')}>
          <span>{t.text}</span>
          {t.action && <button class="small" onClick={() => { t.action!.run(); dropToast(t.id); }}>{t.action.label}</button>}
          <button class="icon" aria-label="Dismiss" onClick={() => dropToast(t.id)}>×</button>
        </div>
      ))}
    </div>
  );
}

/** A modal dialogue that gives the focus back. */
export function Modal(p: { title: string; close(): void; children: ComponentChildren; wide?: boolean; bare?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={ref} class={'modal' + (p.wide ? ' wide' : '') + (p.bare ? ' bare' : '')} aria-label={p.title}
      onCancel={(e) => { e.preventDefault(); p.close(); }} onClick={(e) => { if (e.target === ref.current) p.close(); }}>
      <div class="inside">
        {!p.bare && <header><h2>{p.title}</h2><button class="icon" aria-label="Close" onClick={p.close}>×</button></header>}
        {p.children}
      </div>
    </dialog>
  );
}

export interface Question { title: string; text: string; yes: string; danger?: boolean; run(): void; input?: string; label?: string; answer?(text: string): void }
export const question = signal<Question | null>(null);
export function askFirst(q: Question): void { question.value = q; }

export function Questions() {
  const q = question.value;
  const [text, setText] = useState('');
  useEffect(() => setText(q?.input ?? ''), [q]);
  if (!q) return null;
  const close = () => (question.value = null);
  const yes = () => {
    close();
    if (q.answer) q.answer(text);
    else q.run();
  };
  return (
    <Modal title={q.title} close={close}>
      <form onSubmit={(e) => { e.preventDefault(); yes(); }}>
        <p class="wrap">{q.text}</p>
        {q.answer && <label class="field"><span>{q.label}</span><input autofocus value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>}
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class={q.danger ? 'danger' : 'primary'} autofocus={!q.answer}>{q.yes}</button></footer>
      </form>
    </Modal>
  );
}

/** Rows of one height, of which only those in sight are in the document. */
export function Virtual(p: {
  count: number; height: number; row(i: number, style: JSX.CSSProperties): ComponentChildren; class?: string; label: string; role?: 'grid' | 'region';
  scrolled?(box: HTMLElement): void; box?(box: HTMLElement | null): void; header?: ComponentChildren; active?: string; keys?(e: KeyboardEvent): void; columns?: number; resized?(): void;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const look = () => {
    const b = ref.current;
    if (!b) return;
    setView((v) => (v.top === b.scrollTop && v.height === b.clientHeight ? v : { top: b.scrollTop, height: b.clientHeight }));
    p.scrolled?.(b);
  };
  useLayoutEffect(() => {
    p.box?.(ref.current);
    look();
    const o = new ResizeObserver(() => { look(); p.resized?.(); });
    o.observe(ref.current!);
    return () => { o.disconnect(); p.box?.(null); };
  }, []);
  const first = Math.max(0, Math.floor(view.top / p.height) - 10);
  const last = Math.min(p.count, Math.ceil((view.top + view.height) / p.height) + 10);
  const rows = [];
  for (let i = first; i < last; i++) rows.push(p.row(i, { position: 'absolute', top: `${i * p.height}px`, height: `${p.height}px`, left: 0, right: 0 }));
  return (
    <div ref={ref} class={'virtual ' + (p.class ?? '')} onScroll={look} tabIndex={0} role={p.role} aria-label={p.label} aria-rowcount={p.role === 'grid' ? p.count + 1 : undefined}
      aria-colcount={p.columns} aria-activedescendant={p.active} onKeyDown={p.keys}>
      {p.header}
      <div role={p.role === 'grid' ? 'rowgroup' : 'presentation'} class="rows" style={{ height: `${p.count * p.height}px` }}>{rows}</div>
    </div>
  );
}

const shapes: Record<string, string> = { running: '●', idle: '◐', creating: '◌', terminated: '○', queued: '◌', exited: '○', closed: '○', unreachable: '▲', starting: '◌', requires_action: '◆', error: '▲', ended: '○' };
const words: Record<string, string> = { terminated: 'ended', closed: 'ended', exited: 'ended', requires_action: 'asks' };

/** A state as a word and a shape, never as a colour alone. */
export function StateMark({ state }: { state: string }) {
  return <span class={'state s-' + state}><span aria-hidden="true">{shapes[state] ?? '•'}</span> {words[state] ?? state}</span>;
}

export function Empty({ children }: { children: ComponentChildren }) { return <div class="empty">{children}</div>; }

export function bytes(n: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i === 0 ? n : n.toFixed(n < 10 ? 1 : 0)} ${units[i]}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
}

/** The time, as a signal that moves every few seconds, for "3 m ago". */
export const now = signal(Date.now());
setInterval(() => { if (!document.hidden) now.value = Date.now(); }, 5000);

export function ago(at: string | undefined): string {
  if (!at) return '';
  const s = Math.max(0, (now.value - Date.parse(at)) / 1000);
  if (s < 10) return 'now';
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** Text of programs and strangers: marks that turn the direction of writing are shown, not obeyed. */
export function plain(s: string): string {
  return s.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, '�');
}

/** The same for texts of several lines: line ends and tabs stay. */
export function lines(s: string): string {
  return s.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (c) => (c === '\r' ? '' : '�'));
}

/** Appends a text to the message that a person writes. */
export function compose(text: string): void {
  const box = document.getElementById('composer') as HTMLTextAreaElement | null;
  if (!box) return;
  box.value += (box.value && !box.value.endsWith('\n') ? '\n' : '') + text;
  box.dispatchEvent(new Event('input', { bubbles: true }));
}

/** Copies a text, and reports whether that worked. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    toast('Copied.');
    return true;
  } catch {
    toast('This browser does not let the page copy.', { bad: true });
    return false;
  }
}
