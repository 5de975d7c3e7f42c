// The sessions and the commands as the daemon reports them. One subscription tells what changes;
// only the session that changed is asked for, so there is no polling.
import { computed, signal } from '@preact/signals';
import type { ExecInfo, SessionInfo } from '../../../sdk/typescript/src/types.js';
import { Conn, kickAll, type Push } from './conn.js';
import { Reader, withYounger } from './known.js';
import { me } from './login.js';

/** All known sessions by id. The map is replaced, never changed. */
export const sessions = signal<ReadonlyMap<string, SessionInfo>>(new Map());
/** Whether the first list has come. */
export const loaded = signal(false);
export const sessionCount = computed(() => [...sessions.value.values()].filter((s) => s.state !== 'terminated').length);

type Listener = (p: Push) => void;
const listeners = new Set<Listener>();
let changes = new Map<string, SessionInfo | null>();
let frame = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Calls f for every event of a session, a command or a dialogue, until the returned function is called. */
export function onEvent(f: Listener): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

function put(s: SessionInfo): void {
  changes.set(s.session_id, s);
  frame ||= requestAnimationFrame(apply);
  timer ??= setTimeout(apply, 250); // a hidden page has no frames
}

function apply(): void {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = 0;
  timer = undefined;
  if (changes.size === 0) return;
  const next = new Map(sessions.value);
  for (const [id, s] of changes) {
    if (s) next.set(id, s);
    else next.delete(id);
  }
  changes = new Map();
  sessions.value = next;
}

/** The session as it is known now, with what is not shown yet. */
export function known(id: string): SessionInfo | undefined { return changes.get(id) ?? sessions.value.get(id); }

export function learn(s: SessionInfo): void { put(s); }

const reader = new Reader(8, async (id) => {
  try {
    put(await control.call<SessionInfo>('session.info', { session_id: id }));
  } catch (e) {
    if ((e as { code?: string }).code === 'SESSION_NOT_FOUND') changes.set(id, null);
  }
});

function receive(p: Push): void {
  const id = p.session_id;
  if (p.type === 'missed') {
    void refresh(control).catch(() => undefined);
    return;
  }
  if (p.dialogue_id || !id) {
    for (const f of listeners) f(p);
    return;
  }
  const s = known(id);
  if (s) {
    const at = p.at ?? s.last_activity;
    switch (p.type as string) {
      case 'session.created':
      case 'session.idle': put({ ...s, state: 'idle', last_activity: at }); break;
      case 'session.running': put({ ...s, state: 'running', last_activity: at }); break;
      case 'session.updated': put({ ...s, name: p.name ?? '' }); break;
      case 'session.terminated': put({ ...s, state: 'terminated', cause: p.cause ?? '', terminated_at: at }); break;
      case 'session.unreachable': put({ ...s, reachable: false, unreachable_why: p.cause ?? '' }); break;
      case 'session.reachable': put({ ...s, reachable: true }); break;
      case 'exec.exited': put({ ...s, last_activity: at }); break;
    }
  }
  if (p.type !== 'session.progress') reader.ask(id);
  for (const f of listeners) f(p);
}

async function list(c: Conn): Promise<void> {
  const before = new Set(sessions.value.keys());
  const [live, ended] = await Promise.all([
    c.call<{ sessions: SessionInfo[] }>('session.list'),
    c.call<{ sessions: SessionInfo[] }>('session.list', { state: 'terminated' }),
  ]);
  const next = new Map<string, SessionInfo>();
  for (const s of [...ended.sessions, ...live.sessions]) next.set(s.session_id, s);
  sessions.value = withYounger(next, sessions.value, before);
  loaded.value = true;
}

const lists = new Set<(c: Conn) => Promise<void>>();

/** Adds a list that is read after every connect, and when events were missed. */
export function onConnect(f: (c: Conn) => Promise<void>): void { lists.add(f); }

async function refresh(c: Conn): Promise<void> {
  await Promise.all([list(c), ...[...lists].map((f) => f(c))]);
}

/** The connection for calls and events. */
export let control: Conn;
/** Grows with every connection of the control socket, for what must be read again. */
export const epoch = signal(0);

export function start(): void {
  control = new Conn((c) => {
    void (async () => {
      try {
        await c.stream('event.subscribe', { passive: true }, receive);
        await refresh(c);
        reader.resume();
        epoch.value++;
        kickAll();
      } catch { /* the connection was lost again */ }
    })();
  });
}

export const mayWrite = computed(() => me.value?.scope === 'full');

export function execsOf(session: string): Promise<ExecInfo[]> {
  return control.call<{ execs: ExecInfo[] }>('exec.list', { session_id: session }).then((r) => r.execs);
}
