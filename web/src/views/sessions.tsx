// The list of sessions.
import { computed, signal, useComputed } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { RuntimeListResult, SessionInfo, SessionUsage, SystemSettingsResult } from '../../../sdk/typescript/src/types.js';
import { sessionLabel } from '../net/dialogues.js';
import { control, epoch, learn, loaded, mayWrite, sessionCount, sessions } from '../net/sessions.js';
import { fits, ListPage } from '../ui/list.js';
import { ago, askFirst, attempt, bytes, Modal, plain, StateMark } from '../ui/parts.js';
import { coarse } from '../ui/prefs.js';
import { go, href, route } from '../ui/route.js';

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

function matches(s: SessionInfo, filter: string): boolean {
  return fits(filter, `${s.name} ${s.session_id} ${what(s)} ${s.tags.join(' ')} ${s.runtime}`, {
    state: (v) => s.state.startsWith(v) || (s.state === 'terminated' && 'ended'.startsWith(v)),
    kind: (v) => s.kind.startsWith(v),
    tag: (v) => s.tags.some((t) => t.toLowerCase().startsWith(v)),
    on: (v) => s.runtime.toLowerCase().startsWith(v),
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

const mayChange = (s: SessionInfo) => mayWrite.value && s.state !== 'terminated';

export function SessionsPage() {
  useUsage();
  return (
    <ListPage title="Sessions" one="session" class="runs" height={HEIGHT} columns={['Name', 'Kind', 'State', 'What', 'Where', 'Use', 'Last', 'Tags']}
      loaded={loaded.value} all={sorted.value} shown={shown.value} filter={filterText.value} example="state:running kind:terminal tag:ci on:docker make"
      id={(s) => s.session_id} over={(s) => s.state === 'terminated'} open={(s) => go('s', s.session_id)}
      keys={{ K: (s) => mayChange(s) && kill(s), r: (s) => mayChange(s) && rename(s) }} hint="r renames · K ends · ? lists the keys"
      create={mayWrite.value && <button class="primary" onClick={() => (creating.value = 'shell')}>New…</button>}
      empty={<>
        <h2>Nothing is running</h2>
        <p>Start something in a shell, and it appears here by itself:</p>
        <pre>trl run -s build 'echo hello'</pre>
        <pre>trl new -t ed -- vim notes</pre>
        {mayWrite.value && <p><button class="primary" onClick={() => (creating.value = 'terminal')}>New terminal</button></p>}
      </>}
      cells={(s) => <>
        <span role="gridcell" class="clip"><a href={href('s', s.session_id)} tabIndex={-1}>{plain(title(s))}</a></span>
        <span role="gridcell">{s.kind}{s.terminal?.recording ? ' · rec' : ''}</span>
        <span role="gridcell"><StateMark state={s.reachable || s.state === 'terminated' ? s.state : 'unreachable'} /></span>
        <span role="gridcell" class="clip mono">{plain(what(s))}</span>
        <span role="gridcell" class="clip">{plain(s.runtime)}</span>
        <span role="gridcell" class="use">{s.state !== 'terminated' && <Use id={s.session_id} />}</span>
        <span role="gridcell">{ago(s.last_activity)}{s.terminal && s.terminal.viewers > 0 ? ` · ${s.terminal.viewers} watching` : ''}</span>
        <span role="gridcell" class="tags">{s.tags.filter((t) => t !== s.name).map((t) => <span key={t} class="tag" title={plain(t)}>{plain(t)}</span>)}</span>
      </>} />
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
