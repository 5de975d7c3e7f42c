// The list of sessions.
import { computed, signal, useComputed } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { RuntimeListResult, SessionInfo, SessionUsage, SystemSettingsResult } from '../../../sdk/typescript/src/types.js';
import { sessionLabel } from '../net/dialogues.js';
import { control, epoch, learn, loaded, mayWrite, sessionCount, sessions } from '../net/sessions.js';
import { ago, askFirst, attempt, bytes, Empty, Modal, plain, StateMark, Virtual } from '../ui/parts.js';
import { coarse } from '../ui/prefs.js';
import { go, href, route, setQuery } from '../ui/route.js';

export const creating = signal<'' | 'shell' | 'terminal' | 'program'>('');

/** What a session does, in a few words. */
export function what(s: SessionInfo): string {
  if (s.state === 'terminated') return s.cause ?? (s.exit_code !== undefined ? `exit status ${s.exit_code}` : '');
  if (!s.reachable) return `cannot be reached: ${s.unreachable_why ?? ''}`;
  if (s.terminal?.title) return s.terminal.title;
  if (s.command?.length) return s.command.join(' ');
  return s.working_dir;
}

const filterText = computed(() => (route.value.path.length === 0 ? (route.value.query.get('q') ?? '') : ''));

/** Words with a colon look at one field, all others anywhere; every word must fit. */
export function matches(s: SessionInfo, filter: string): boolean {
  const all = `${s.name} ${s.session_id} ${what(s)} ${s.tags.join(' ')} ${s.runtime}`.toLowerCase();
  return filter.toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
    const [field, value] = word.includes(':') ? [word.slice(0, word.indexOf(':')), word.slice(word.indexOf(':') + 1)] : ['', word];
    switch (field) {
      case 'state': return s.state.startsWith(value) || (s.state === 'terminated' && 'ended'.startsWith(value));
      case 'kind': return s.kind.startsWith(value);
      case 'tag': return s.tags.some((t) => t.toLowerCase().startsWith(value));
      case 'on': return s.runtime.toLowerCase().startsWith(value);
      default: return all.includes(word);
    }
  });
}

const sorted = computed(() => {
  const live = (s: SessionInfo) => (s.state === 'terminated' ? 1 : 0);
  return [...sessions.value.values()].sort((a, b) => live(a) - live(b) || Date.parse(b.created_at) - Date.parse(a.created_at));
});
const shown = computed(() => {
  const filter = filterText.value;
  return filter ? sorted.value.filter((s) => matches(s, filter)) : sorted.value;
});

/** The name of a session; that of a dialogue has the name of the dialogue. */
export function title(s: SessionInfo): string { return sessionLabel(s.name) || s.session_id; }

export function kill(s: SessionInfo): void {
  askFirst({
    title: `End ${title(s)}?`, text: `Everything that runs in it ends: ${plain(what(s)) || s.kind}.`, yes: 'End session', danger: true,
    run: () => void attempt(() => control.call('session.destroy', { session_id: s.session_id })),
  });
}

export function rename(s: SessionInfo): void {
  askFirst({
    title: `Rename ${title(s)}`, text: 'Letters, digits, dots and dashes; unique among the live sessions.', yes: 'Rename', label: 'Name', input: s.name, run: () => undefined,
    answer: (name) => void attempt(async () => learn(await control.call<SessionInfo>('session.set', { session_id: s.session_id, name }))),
  });
}

/** What the live sessions use, by id, as it was measured last. */
const usage = signal<ReadonlyMap<string, SessionUsage>>(new Map());

/** Measures while the list can be seen; nothing is measured for a page that is hidden or shows something else. */
function useUsage(): void {
  const [hidden, setHidden] = useState(document.hidden);
  const connection = epoch.value; // as drawn: an effect runs later, when there may be another already
  useEffect(() => {
    const look = () => setHidden(document.hidden);
    document.addEventListener('visibilitychange', look);
    return () => { document.removeEventListener('visibilitychange', look); usage.value = new Map(); };
  }, []);
  useEffect(() => {
    if (hidden || connection === 0) return;
    let stream = '';
    let over = false;
    // A long list is measured less often: every measurement has all live sessions.
    control.stream('usage.subscribe', { interval_s: Math.min(60, Math.max(5, sessionCount.peek() / 100)) }, (p) => {
      if (p.sessions && !over) usage.value = new Map(p.sessions.map((u) => [u.session_id, u]));
    }).then((s) => { stream = s.stream_id; if (over) control.end(stream); }, () => undefined);
    return () => { over = true; if (stream) control.end(stream); };
  }, [hidden, connection]);
}

/** What one session uses. A measurement changes this text alone; neither the row nor the list is drawn again. */
function Use({ id }: { id: string }) {
  const text = useComputed(() => {
    const u = usage.value.get(id);
    return u ? (u.cpu_percent === undefined ? '' : `${Math.round(u.cpu_percent)} % · `) + bytes(u.memory_bytes) : '';
  });
  return <>{text}</>;
}

const HEIGHT = coarse ? 56 : 40;

export function SessionsPage() {
  const list = shown.value;
  const [at, setAt] = useState(0);
  const box = useRef<HTMLElement | null>(null);
  const index = Math.min(at, Math.max(0, list.length - 1));
  const move = (i: number) => {
    const n = Math.max(0, Math.min(list.length - 1, i));
    setAt(n);
    const b = box.current;
    if (!b) return;
    if (n * HEIGHT < b.scrollTop) b.scrollTop = n * HEIGHT;
    else if ((n + 2) * HEIGHT > b.scrollTop + b.clientHeight) b.scrollTop = (n + 2) * HEIGHT - b.clientHeight;
  };
  const keys = (e: KeyboardEvent) => {
    const s = list[index];
    const run: Record<string, () => void> = {
      ArrowDown: () => move(index + 1), j: () => move(index + 1), ArrowUp: () => move(index - 1), k: () => move(index - 1), Home: () => move(0), End: () => move(list.length - 1),
      PageDown: () => move(index + 10), PageUp: () => move(index - 10), Enter: () => s && go('s', s.session_id), o: () => s && go('s', s.session_id),
      K: () => s && mayWrite.value && s.state !== 'terminated' && kill(s), r: () => s && mayWrite.value && s.state !== 'terminated' && rename(s),
    };
    if (e.ctrlKey || e.altKey || e.metaKey || !run[e.key]) return;
    e.preventDefault();
    run[e.key]!();
  };
  useEffect(() => box.current?.focus({ preventScroll: true }), [loaded.value && sorted.value.length > 0]);
  useUsage();

  if (!loaded.value) return <Empty><p>Loading…</p></Empty>;
  return (
    <section class="page" aria-label="Sessions">
      <div class="bar">
        <input id="filter" class="filter grow" aria-label="Filter the sessions" placeholder="/ filter: state:running kind:terminal tag:ci on:docker make" value={filterText.value}
          onInput={(e) => setQuery('q', e.currentTarget.value)} onKeyDown={(e) => { if (e.key === 'Escape' || e.key === 'Enter') { e.preventDefault(); box.current?.focus(); } }} />
        {mayWrite.value && <button class="primary" onClick={() => (creating.value = 'shell')}>New…</button>}
      </div>
      {sorted.value.length === 0 ? (
        <Empty>
          <h2>Nothing is running</h2>
          <p>Start something in a shell, and it appears here by itself:</p>
          <pre>trl run -s build 'echo hello'</pre>
          <pre>trl new -t ed -- vim notes</pre>
          {mayWrite.value && <p><button class="primary" onClick={() => (creating.value = 'terminal')}>New terminal</button></p>}
        </Empty>
      ) : list.length === 0 ? (
        <Empty><p>0 of {sorted.value.length} sessions match.</p><p><button onClick={() => setQuery('q', '')}>Clear the filter</button></p></Empty>
      ) : (
        <Virtual count={list.length} height={HEIGHT} class="grid runs" label="Sessions" role="grid" columns={8} box={(b) => (box.current = b)} keys={keys} active={list[index] ? 'row-' + list[index]!.session_id : undefined}
          header={<div role="rowgroup" class="thead"><div role="row" aria-rowindex={1} class="tr">{['Name', 'Kind', 'State', 'What', 'Where', 'Use', 'Last', 'Tags'].map((h) => <span key={h} role="columnheader">{h}</span>)}</div></div>}
          row={(i, style) => {
            const s = list[i]!;
            return (
              <div key={s.session_id} id={'row-' + s.session_id} role="row" aria-rowindex={i + 2} aria-selected={i === index} class={'tr' + (i === index ? ' at' : '') + (s.state === 'terminated' ? ' over' : '')} style={style}
                onClick={() => { setAt(i); go('s', s.session_id); }}>
                <span role="gridcell" class="clip"><a href={href('s', s.session_id)} tabIndex={-1}>{plain(title(s))}</a></span>
                <span role="gridcell">{s.kind}{s.terminal?.recording ? ' · rec' : ''}</span>
                <span role="gridcell"><StateMark state={s.reachable || s.state === 'terminated' ? s.state : 'unreachable'} /></span>
                <span role="gridcell" class="clip mono">{plain(what(s))}</span>
                <span role="gridcell" class="clip">{plain(s.runtime)}</span>
                <span role="gridcell" class="use">{s.state !== 'terminated' && <Use id={s.session_id} />}</span>
                <span role="gridcell">{ago(s.last_activity)}{s.terminal && s.terminal.viewers > 0 ? ` · ${s.terminal.viewers} watching` : ''}</span>
                <span role="gridcell" class="clip">{s.tags.map((t) => <span key={t} class="tag">{plain(t)}</span>)}</span>
              </div>
            );
          }} />
      )}
      <div class="foot dim" role="status">{list.length === sorted.value.length ? `${list.length} ${list.length === 1 ? 'session' : 'sessions'}` : `${list.length} of ${sorted.value.length} sessions`}<span class="hint"> · Enter opens · r renames · K ends · ? lists the keys</span></div>
    </section>
  );
}

/** Splits a command line as a person writes it: blanks separate, quotes hold together. */
export function wordsOf(line: string): string[] {
  const out: string[] = [];
  for (const m of line.matchAll(/(?:[^\s"']|"(?:\\.|[^"\\])*"|'[^']*')+/g)) {
    out.push(m[0].replace(/"((?:\\.|[^"\\])*)"|'([^']*)'/g, (_x, a: string | undefined, b: string | undefined) => (a !== undefined ? a.replace(/\\(.)/g, '$1') : (b ?? ''))));
  }
  return out;
}

const builtin: [value: string, text: string][] = [['', 'none'], ['workspace', 'workspace: writes only below its directory; the home directory is hidden'], ['read-only', 'read-only: as workspace, but writes only to a private /tmp']];

/** The choice of what a new session may touch: one of the profiles that are built in, or of the configuration. */
export function IsolationField({ value, set }: { value: string; set(e: { currentTarget: { value: string } }): void }) {
  const [named, setNamed] = useState<string[]>([]);
  useEffect(() => void control.call<SystemSettingsResult>('system.settings').then((r) => setNamed(r.settings.flatMap((s) => /^isolation\.(.+)\.\w+$/.exec(s.key)?.[1] ?? [])), () => undefined), []);
  const more = [...new Set([...named, value])].filter((n) => !builtin.some(([v]) => v === n));
  return (
    <label class="field"><span>Isolation</span><select value={value} onChange={set}>
      {builtin.map(([v, t]) => <option key={v} value={v} selected={v === value}>{t}</option>)}
      {more.map((n) => <option key={n} value={n} selected={n === value}>{plain(n)}</option>)}
    </select></label>
  );
}

export function NewSession() {
  const kind = creating.value;
  const [places, setPlaces] = useState<string[]>(['host']);
  const [f, setF] = useState({ name: '', command: '', working_dir: '', runtime: '', isolate: '', tags: '', record: false });
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (!kind) return;
    setError('');
    void control.call<RuntimeListResult>('runtime.list').then((r) => setPlaces(r.runtimes.filter((x) => x.usable !== false && !(x as { argument?: string }).argument).map((x) => x.runtime)), () => undefined);
  }, [kind !== '']);
  if (!kind) return null;
  const close = () => (creating.value = '');
  const field = (name: 'name' | 'command' | 'working_dir' | 'tags' | 'runtime', label: string, hint: string, focus = false) => (
    <label class="field"><span>{label}</span><input autofocus={focus} value={f[name]} placeholder={hint} list={name === 'runtime' ? 'places' : undefined} autocomplete="off" spellcheck={false}
      onInput={(e) => setF({ ...f, [name]: e.currentTarget.value })} /></label>
  );
  const submit = async () => {
    setBusy(true);
    try {
      const s = await control.call<SessionInfo>('session.create', {
        kind, prefer_shell: 'bash', ...(f.name ? { name: f.name } : {}), ...(f.working_dir ? { working_dir: f.working_dir } : {}), ...(f.runtime ? { runtime: f.runtime } : {}),
        ...(f.tags ? { tags: f.tags.split(/[\s,]+/).filter(Boolean) } : {}), ...(kind !== 'shell' && f.command ? { command: wordsOf(f.command) } : {}),
        ...(f.isolate ? { isolation: { profile: f.isolate } } : {}), ...(kind === 'terminal' && f.record ? { record: true } : {}),
      });
      learn(s);
      close();
      setF({ ...f, name: '', command: '' });
      go('s', s.session_id);
    } catch (e) {
      setError((e as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal title="New session" close={close}>
      <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <div class="tabs" role="group" aria-label="Kind">
          {(['shell', 'terminal', 'program'] as const).map((k) => <button key={k} type="button" aria-pressed={k === kind} onClick={() => (creating.value = k)}>{k}</button>)}
        </div>
        <p class="dim">{{ shell: 'A shell that stays; it runs one command after another and keeps their output apart.', terminal: 'A program with a screen, such as vim or top. Without a command: an interactive shell.', program: 'One program on three pipes, for protocols.' }[kind]}</p>
        {field('name', 'Name', 'optional', true)}
        {kind !== 'shell' && field('command', 'Command', kind === 'terminal' ? 'the shell' : 'python3 -i')}
        {field('working_dir', 'Directory', 'the home directory')}
        {field('runtime', 'Where', 'host, docker:alpine, ssh:build')}
        <datalist id="places">{places.map((p) => <option key={p} value={p} />)}</datalist>
        <IsolationField value={f.isolate} set={(e) => setF({ ...f, isolate: e.currentTarget.value })} />
        {field('tags', 'Tags', 'ci nightly')}
        {kind === 'terminal' && <label class="check"><input type="checkbox" checked={f.record} onChange={(e) => setF({ ...f, record: e.currentTarget.checked })} /> Record it</label>}
        {error && <p class="bad wrap" role="alert">{error}</p>}
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary" disabled={busy}>{busy ? 'Starting…' : 'Start'}</button></footer>
      </form>
    </Modal>
  );
}
