// The command palette and the list of keys.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { dialogues, nameOf, waiting } from '../net/dialogues.js';
import { shared } from '../net/login.js';
import { mayWrite, sessions } from '../net/sessions.js';
import { interruptHere } from '../views/dialogue.js';
import { doing, starting } from '../views/dialogues.js';
import { creating, title, what } from '../views/sessions.js';
import { Modal, plain } from './parts.js';
import { isDark, prefer, prefs } from './prefs.js';
import { go, route } from './route.js';

export const overlay = signal<'' | 'palette' | 'keys'>('');

interface Action { name: string; hint: string; run(): void }

function actions(): Action[] {
  const pages: Action[] = [
    { name: 'Sessions', hint: 'g s', run: () => go() },
    { name: 'Dialogues', hint: 'g d', run: () => go('d') },
    { name: 'Inbox', hint: waiting.value.length ? `${waiting.value.length} wait · g i` : 'g i', run: () => go('inbox') },
    { name: 'Recordings', hint: 'g p', run: () => go('recordings') },
    { name: 'Events', hint: 'g e', run: () => go('events') },
    { name: 'Health of the daemon', hint: 'g h', run: () => go('daemon') },
    { name: 'Settings and logins', hint: 'g ,', run: () => go('settings') },
  ];
  const list: Action[] = [
    ...(shared.value ? [] : pages),
    { name: isDark() ? 'Light colours' : 'Dark colours', hint: '', run: () => prefer({ theme: isDark() ? 'light' : 'dark' }) },
    { name: 'Keyboard shortcuts', hint: '?', run: () => (overlay.value = 'keys') },
  ];
  if (mayWrite.value) list.push({ name: 'New dialogue', hint: 'an agent', run: () => (starting.value = true) });
  if (mayWrite.value) for (const k of ['shell', 'terminal', 'program'] as const) list.push({ name: `New ${k}`, hint: '', run: () => (creating.value = k) });
  const here = route.value.path[0] === 'd' ? dialogues.value.get(route.value.path[1] ?? '') : undefined;
  if (here && !shared.value) {
    list.push({ name: 'Stream Inspector of this dialogue', hint: 'i', run: () => go('d', here.dialogue_id, 'raw') });
    if (mayWrite.value && (here.state === 'running' || here.state === 'requires_action')) list.push({ name: 'Interrupt this dialogue', hint: '.', run: interruptHere });
  }
  for (const d of dialogues.value.values()) list.push({ name: `Open ${nameOf(d)}`, hint: plain(`${d.agent} ${doing(d)}`), run: () => go('d', d.dialogue_id) });
  for (const s of sessions.value.values()) list.push({ name: `Open ${title(s)}`, hint: plain(what(s)), run: () => go('s', s.session_id) });
  return list;
}

export function Palette() {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const list = actions().filter((a) => words.every((w) => (a.name + ' ' + a.hint).toLowerCase().includes(w))).slice(0, 50);
  const index = Math.min(at, list.length - 1);
  const close = () => (overlay.value = '');
  const run = (a: Action | undefined) => {
    close();
    a?.run();
  };
  useEffect(() => document.getElementById('choice-' + index)?.scrollIntoView({ block: 'nearest' }), [index]);
  return (
    <Modal title="Command palette" close={close} bare>
      <input class="palette" role="combobox" aria-expanded="true" aria-controls="choices" aria-activedescendant={'choice-' + index} aria-label="Run or open anything by name" placeholder="Run or open anything by name" autofocus value={text}
        onInput={(e) => { setText(e.currentTarget.value); setAt(0); }}
        onKeyDown={(e) => {
          if (e.key === 'ArrowDown') { e.preventDefault(); setAt(Math.min(index + 1, list.length - 1)); }
          if (e.key === 'ArrowUp') { e.preventDefault(); setAt(Math.max(0, index - 1)); }
          if (e.key === 'Enter') { e.preventDefault(); run(list[index]); }
        }} />
      <ul id="choices" role="listbox" aria-label="Choices" class="choices">
        {list.map((a, i) => <li key={a.name + i} id={'choice-' + i} role="option" aria-selected={i === index} onClick={() => run(a)}><span class="clip">{plain(a.name)}</span><span class="dim clip">{a.hint}</span></li>)}
      </ul>
    </Modal>
  );
}

const table: [string, string][] = [
  ['Ctrl+K', 'command palette (Ctrl+Alt+K in a terminal)'], ['/', 'filter or search here'], ['g s', 'sessions'], ['g d', 'dialogues'], ['g i', 'inbox'], ['g p', 'recordings'], ['g e', 'events'], ['g h', 'health'], ['g ,', 'settings'], ['j k ↑ ↓', 'move in the list'], ['Enter o', 'open'],
  ['r', 'rename the session'], ['K', 'end the session'], ['c', 'new session'], ['[ ]', 'previous, next session'], ['Ctrl+Alt+← or Esc', 'leave the terminal'], ['Ctrl+Alt+F', 'find in the terminal'],
  ['Ctrl+Alt+R', 'screen reader mode'], ['Ctrl+Alt+S', 'take the size'], ['Ctrl+Shift+C / V', 'copy, paste'], ['g r', 'the open request'], ['y a n e', 'allow, always, deny, edit the request that has the focus'], ['.', 'interrupt the agent'], ['m', 'write a message'], ['u U', 'unfold a tool call, all'], ['i', 'Stream Inspector at this item'], ['f End', 'newest item'], ['Space ← → < > 0-9', 'recordings: play or pause, 5 s back or forward, slower, faster, tenths'], ['?', 'this list'],
];

export function Keys() {
  return (
    <Modal title="Keyboard shortcuts" close={() => (overlay.value = '')}>
      <dl class="facts">{table.map(([k, v]) => <><dt key={k}><kbd>{k}</kbd></dt><dd key={k + '='}>{v}</dd></>)}</dl>
    </Modal>
  );
}

let prefix = 0;

/** Handles the keys that work everywhere. */
export function shortcuts(e: KeyboardEvent): void {
  const palette = e.code === 'KeyK' && (((e.ctrlKey || e.metaKey) && !e.altKey && !inTerminal(e)) || (e.ctrlKey && e.altKey) || e.metaKey);
  if (palette) {
    e.preventDefault();
    overlay.value = overlay.value === 'palette' ? '' : 'palette';
    return;
  }
  if (!prefs.value.keys || e.ctrlKey || e.altKey || e.metaKey || overlay.value || inField(e) || document.querySelector('dialog[open]')) return;
  const after = Date.now() - prefix < 1500 ? 'g' : '';
  prefix = 0;
  const run: Record<string, () => void> = {
    gs: () => go(), gd: () => go('d'), gi: () => go('inbox'), gp: () => go('recordings'), ge: () => go('events'), gh: () => go('daemon'), 'g,': () => go('settings'), gr: () => document.querySelector<HTMLElement>('.ask')?.focus(), '.': interruptHere, '?': () => (overlay.value = 'keys'), c: () => { if (!mayWrite.value) return; if (route.value.path[0] === 'd') starting.value = true; else creating.value = 'shell'; },
    '/': () => document.querySelector<HTMLInputElement>('input.filter')?.focus(), '[': () => step(-1), ']': () => step(1), g: () => (prefix = Date.now()),
  };
  const f = run[after + e.key];
  if (!f) return;
  e.preventDefault();
  f();
}

function step(n: number): void {
  const live = [...sessions.value.values()].filter((s) => s.state !== 'terminated').map((s) => s.session_id);
  const at = live.findIndex((id) => location.hash.includes(id));
  const to = live[(at + n + live.length) % live.length];
  if (to) go('s', to);
}

function inTerminal(e: KeyboardEvent): boolean { return (e.target as Element | null)?.closest?.('.xterm') != null; }
function inField(e: KeyboardEvent): boolean { return (e.target as Element | null)?.closest?.('input, textarea, select, [contenteditable]') != null; }
