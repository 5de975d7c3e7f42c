// The dialogues and the requests that wait for an answer, as the daemon reports them. Events say
// which dialogue has changed; only that one is read again.
import { computed, effect, signal } from '@preact/signals';
import type { DialogueInfo, DialogueRequestsResult, DialogueWaiting } from '../../../sdk/typescript/src/types.js';
import { prefs } from '../ui/prefs.js';
import { go } from '../ui/route.js';
import type { Conn, Push } from './conn.js';
import { Reader, withYounger } from './known.js';
import { control, onConnect, onEvent } from './sessions.js';

/** All known dialogues by id. The map is replaced, never changed. */
export const dialogues = signal<ReadonlyMap<string, DialogueInfo>>(new Map());
export const dialoguesLoaded = signal(false);
/** The open requests of all dialogues, the one that has waited longest first. */
export const waiting = signal<readonly DialogueWaiting[]>([]);
export const dialogueCount = computed(() => [...dialogues.value.values()].filter((d) => d.state !== 'ended').length);

export function nameOf(d: Pick<DialogueInfo, 'name' | 'dialogue_id'> & { title?: string }): string { return d.name || d.title || d.dialogue_id; }

/** The name of a session; the session of a dialogue is named after the dialogue's id. */
export function sessionLabel(name: string): string {
  const d = dialogues.value.get(name);
  return d ? nameOf(d) : name;
}

/** Takes a snapshot that a call returned. An older one than the known one is ignored. */
export function learnDialogue(d: DialogueInfo): void {
  const known = dialogues.value.get(d.dialogue_id);
  if (known && known.seq > d.seq) return;
  dialogues.value = new Map(dialogues.value).set(d.dialogue_id, d);
}

function drop(id: string): void {
  const next = new Map(dialogues.value);
  next.delete(id);
  dialogues.value = next;
  waiting.value = waiting.value.filter((w) => w.dialogue_id !== id);
}

const reader = new Reader(4, async (id) => {
  try {
    learnDialogue(await control.call<DialogueInfo>('dialogue.info', { dialogue_id: id }));
  } catch (e) {
    if ((e as { code?: string }).code === 'DIALOGUE_NOT_FOUND') drop(id);
  }
});

/** Reads a dialogue again. */
export function ask(id: string): void { reader.ask(id); }

let reading = false;
let again = false;

async function readRequests(c: Conn): Promise<void> {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  let incomplete: boolean;
  try {
    do {
      again = false;
      const { requests, recovering = [] } = await c.call<DialogueRequestsResult>('dialogue.requests');
      waiting.value = [...requests, ...waiting.value.filter((w) => recovering.includes(w.dialogue_id))];
      incomplete = recovering.length > 0;
    } while (again);
  } finally {
    reading = false;
  }
  // The daemon was restarted, and waits for the dialogues that it recovers a while before each answer.
  if (incomplete) void readRequests(c).catch(() => undefined);
}

onConnect(async (c) => {
  const before = new Set(dialogues.value.keys());
  const { dialogues: list } = await c.call<{ dialogues: DialogueInfo[] }>('dialogue.list');
  dialogues.value = withYounger(new Map(list.map((d) => [d.dialogue_id, d])), dialogues.value, before);
  dialoguesLoaded.value = true;
  reader.resume();
  await readRequests(c);
});

onEvent((p: Push) => {
  const id = p.dialogue_id;
  if (!id) {
    // Where the agent runs cannot be reached, or can be again.
    if (/^session\.(un)?reachable$/.test(p.type as string)) for (const d of dialogues.value.values()) if (d.session_id === p.session_id) ask(d.dialogue_id);
    return;
  }
  switch (p.type as string) {
    case 'dialogue.removed': drop(id); return;
    case 'dialogue.request_opened': void readRequests(control).catch(() => undefined); break;
    case 'dialogue.request_closed': waiting.value = waiting.value.filter((w) => w.dialogue_id !== id || w.request.request_id !== p.request_id); break;
    case 'dialogue.ended': waiting.value = waiting.value.filter((w) => w.dialogue_id !== id); break;
  }
  const d = dialogues.value.get(id);
  if (d && p.state && d.state !== p.state) dialogues.value = new Map(dialogues.value).set(id, { ...d, state: p.state });
  ask(id);
});

// One notification for each request that opens while the page is hidden, if the person wants them.
const shown = new Map<string, Notification | null>();
let first = true;
effect(() => {
  const list = waiting.value;
  if (!dialoguesLoaded.value) return;
  const open = new Set(list.map((w) => w.dialogue_id + ' ' + w.request.request_id));
  for (const [k, n] of shown) {
    if (open.has(k)) continue;
    n?.close();
    shown.delete(k);
  }
  for (const w of list) {
    const k = w.dialogue_id + ' ' + w.request.request_id;
    if (shown.has(k)) continue;
    shown.set(k, null);
    if (first || !document.hidden || !prefs.peek().notify || !('Notification' in window) || Notification.permission !== 'granted') continue;
    const n = new Notification(`${w.name || w.agent} asks`, { body: `${w.request.tool ?? w.request.kind}: ${w.request.subject ?? w.request.title ?? ''}`.slice(0, 200), tag: k });
    n.onclick = () => {
      window.focus();
      go('d', w.dialogue_id);
      n.close();
    };
    shown.set(k, n);
  }
  first = false;
});
