// The health of the daemon: what it is, what it uses, its settings and limits, what it finds when it
// checks itself, the places it can reach, and its log.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { DoctorFinding, LogRecord, RuntimeListResult, SessionUsage, SystemDoctorResult, SystemInfoResult, SystemSettingsResult, SystemStatsResult } from '../../../sdk/typescript/src/types.js';
import { dialogues, sessionLabel, waiting } from '../net/dialogues.js';
import { me } from '../net/login.js';
import { control, epoch, mayWrite, sessions } from '../net/sessions.js';
import { attempt, bytes, duration, Empty, plain } from '../ui/parts.js';
import { href } from '../ui/route.js';

export function DaemonPage() {
  const [info, setInfo] = useState<SystemInfoResult>();
  const [stats, setStats] = useState<SystemStatsResult>();
  const [places, setPlaces] = useState<RuntimeListResult>();
  const [usage, setUsage] = useState<SessionUsage[]>();
  const [settings, setSettings] = useState<SystemSettingsResult>();
  useEffect(() => {
    void control.call<SystemInfoResult>('system.info').then(setInfo, () => undefined);
    void control.call<SystemSettingsResult>('system.settings').then(setSettings, () => undefined);
    void control.call<RuntimeListResult>('runtime.list').then(setPlaces, () => undefined);
    // The size of the files is read once, and later than the rest: it is slow to measure, and changes slowly.
    const read = (disk: boolean) => void control.call<SystemStatsResult>('system.stats', { disk }).then((r) => setStats((before) => ({ ...(before?.disk ? { disk: before.disk } : {}), ...r })), () => undefined);
    read(false);
    read(true);
    let stream = '';
    let over = false;
    // The measurements come by themselves; the counts of the daemon are read with each.
    control.stream('usage.subscribe', { interval_s: 5 }, (p) => { if (p.sessions) setUsage(p.sessions); read(false); }).then((s) => { stream = s.stream_id; if (over) control.end(stream); }, () => undefined);
    return () => { over = true; if (stream) control.end(stream); };
  }, [epoch.value]);
  if (!info || !stats) return <Empty><p>Loading…</p></Empty>;
  const most = Number(info.limits['max_sessions'] ?? 0);
  const busy = [...(usage ?? [])].sort((a, b) => (b.cpu_percent ?? 0) - (a.cpu_percent ?? 0) || b.memory_bytes - a.memory_bytes).slice(0, 10);
  const cards: [string, string, string][] = [
    ['Up for', duration(stats.uptime_s * 1000), `process ${info.pid}`],
    ['Sessions', String(stats.active_sessions), most ? `of at most ${most}` : ''],
    ['Dialogues', String([...dialogues.value.values()].filter((d) => d.state !== 'ended').length), waiting.value.length ? `${waiting.value.length} waiting for you` : 'none waiting'],
    ['Commands', stats.total_commands_run.toLocaleString(), 'since it started'],
    ['Memory', bytes(stats.memory_rss_bytes), 'without the sessions'],
    ['Connections', String(stats.connections), Object.entries(stats.transports).sort().map(([t, n]) => `${n} ${t}`).join(', ')],
    ...(stats.disk ? [['Disk', bytes(Object.entries(stats.disk).reduce((sum, [k, n]) => (k === 'free_bytes' ? sum : sum + n), 0)), `${bytes(stats.disk.free_bytes)} free`] as [string, string, string]] : []),
  ];
  const facts: [string, string][] = [
    ['version', `${info.version} (API ${info.api_version})`], ['machine', `${me.value?.host ?? ''} (${info.os} ${info.arch})`], ['http', info.http ?? ''], ['grpc', info.grpc ?? 'off'], ['settings', info.config_file ?? ''], ['can also', info.capabilities.join(', ')],
    ['open files', String(stats.open_fds)], ['last event', String(stats.event_seq)],
    ['disk', stats.disk ? Object.entries(stats.disk).filter(([k, n]) => n > 0 && k !== 'free_bytes').map(([k, n]) => `${k.replace('_bytes', '')} ${bytes(n)}`).join(', ') : ''],
  ];
  return (
    <section class="page scroll" aria-label="Health">
      <h1>Health</h1>
      <div class="cards">{cards.map(([k, v, more]) => <div key={k} class="stat"><span class="dim">{k}</span><strong>{v}</strong><span class="dim">{more}</span></div>)}</div>
      <h2>The daemon</h2>
      <dl class="facts">{facts.filter(([, v]) => v).map(([k, v]) => <><dt key={k}>{k}</dt><dd key={k + '='}>{plain(v)}</dd></>)}</dl>
      <h2>Busiest sessions</h2>
      {busy.length === 0 ? <p class="dim">{usage ? 'No sessions are running.' : 'Measuring…'}</p> : (
        <table class="table"><thead><tr><th scope="col">Session</th><th scope="col">CPU</th><th scope="col">Memory</th><th scope="col">Processes</th></tr></thead>
          <tbody>{busy.map((u) => <tr key={u.session_id}><td class="clip"><a class="link" href={dialogues.value.has(u.name) ? href('d', u.name) : href('s', u.session_id)}>{plain(sessionLabel(u.name || sessions.value.get(u.session_id)?.name || u.session_id))}</a></td><td>{u.cpu_percent === undefined ? '' : `${Math.round(u.cpu_percent)} %`}</td><td>{bytes(u.memory_bytes)}</td><td>{u.processes}</td></tr>)}</tbody></table>
      )}
      {places && <><h2>Places</h2><ul class="plain places">{places.runtimes.map((r) => <li key={r.runtime}><span class={!r.usable ? 'dim' : 'good'} aria-hidden="true">{!r.usable ? '○' : '●'}</span> <code>{plain(r.runtime)}{r.argument ? ':' + plain(r.argument) : ''}</code> <span class="dim">{!r.usable ? `not usable${r.why ? ': ' + plain(r.why) : ''}` : r.sessions ? `${r.sessions} ${r.sessions === 1 ? 'session' : 'sessions'}` : 'usable'}</span></li>)}</ul></>}
      <Doctor />
      {settings && <Settings settings={settings} />}
      <details><summary>Limits</summary><dl class="facts">{Object.entries(info.limits).sort().map(([k, v]) => <><dt key={k}>{k}</dt><dd key={k + '='}>{v}</dd></>)}</dl></details>
      <LogTail />
    </section>
  );
}

const marks: Record<string, [mark: string, kind: string]> = { ok: ['✓', 'good'], note: ['!', 'warn-text'], bad: ['✗', 'bad'] };

/** What the daemon finds when it checks itself. It tries sessions, so it does that only when it is asked to. */
function Doctor() {
  const [found, setFound] = useState<DoctorFinding[]>();
  const [busy, setBusy] = useState(false);
  const check = async () => {
    setBusy(true);
    const r = await attempt(() => control.call<SystemDoctorResult>('system.doctor'));
    if (r) setFound(r.findings);
    setBusy(false);
  };
  const bad = found?.filter((f) => f.verdict === 'bad').length ?? 0;
  return (
    <section class="doctor" aria-label="Doctor">
      <h2>Doctor</h2>
      <p class="dim">Checks directories, places, limits and isolation, and tries a session with every shell. <code>trl doctor</code> also checks the machine that you type on.</p>
      {mayWrite.value ? <button class="small" disabled={busy} onClick={() => void check()}>{busy ? 'Checking…' : found ? 'Check again' : 'Check now'}</button> : <p class="dim">This login is read-only; checking starts sessions.</p>}
      <p role="status">{found && (bad ? `${bad} ${bad === 1 ? 'thing is' : 'things are'} broken` : 'Everything works')}</p>
      {found && (
        <table class="table"><thead><tr><th scope="col">Verdict</th><th scope="col">Section</th><th scope="col">What</th><th scope="col">Detail</th></tr></thead>
          <tbody>{found.map((f) => <tr key={f.section + f.name} data-verdict={f.verdict}><td><span class={marks[f.verdict]?.[1] ?? ''}><span aria-hidden="true">{marks[f.verdict]?.[0]}</span> {f.verdict}</span></td><td>{plain(f.section)}</td><td>{plain(f.name)}</td><td class="wrap">{plain(f.detail)}</td></tr>)}</tbody></table>
      )}
    </section>
  );
}

/** The settings that the daemon runs with; first those that are not the default. */
function Settings({ settings: { settings, notes, file } }: { settings: SystemSettingsResult }) {
  const [all, setAll] = useState(false);
  const changed = settings.filter((s) => s.origin !== 'default');
  const shown = all ? settings : changed;
  return (
    <section class="settings-list" aria-label="Settings of the daemon">
      <h2>Settings</h2>
      <p class="dim">{changed.length} of {settings.length} differ from the default. The file is <code>{plain(file)}</code>; secrets are not shown.</p>
      {notes.map((n) => <p key={n} class="warn-text wrap">{plain(n)}</p>)}
      {shown.length > 0 && (
        <table class="table"><thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
          <tbody>{shown.map((s) => <tr key={s.key} data-key={s.key} title={s.doc}><td><code>{plain(s.key)}</code></td><td class="wrap">{plain(s.value) || <span class="dim">none</span>}</td><td class="wrap dim">{plain(s.origin)}</td></tr>)}</tbody></table>
      )}
      <button class="small" aria-expanded={all} onClick={() => setAll(!all)}>{all ? 'Only changed settings' : `All ${settings.length} settings`}</button>
    </section>
  );
}

interface LogLine extends LogRecord { seq: number; at: string }

const MOST = 500;

/** The end of the daemon's log, which goes on by itself. */
function LogTail() {
  const [lines, setLines] = useState<LogLine[]>([]);
  const [level, setLevel] = useState('info');
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let stream = '';
    let over = false;
    setLines([]);
    control.stream('system.log', { level, limit: 200 }, (p) => {
      if (p.log) setLines((before) => [...before.slice(1 - MOST), { ...p.log!, seq: p.seq, at: p.at ?? '' }]);
    }).then((s) => { stream = s.stream_id; if (over) control.end(stream); }, () => undefined);
    return () => { over = true; if (stream) control.end(stream); };
  }, [level, epoch.value]);
  // It stays at the end unless a person has scrolled up.
  const stick = useRef(true);
  useEffect(() => { if (stick.current && box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines]);
  return (
    <section class="daemon-log" aria-label="Log of the daemon">
      <h2>Log</h2>
      <label class="dim">Minimum level <select value={level} onChange={(e) => setLevel(e.currentTarget.value)}>{['debug', 'info', 'warn', 'error'].map((l) => <option key={l}>{l}</option>)}</select></label>
      <div class="log-tail" ref={box} tabIndex={0} role="log" aria-label="Last records of the log" aria-live="off"
        onScroll={(e) => { const b = e.currentTarget; stick.current = b.scrollHeight - b.scrollTop - b.clientHeight < 48; }}>
        {lines.length === 0 && <p class="dim">No records at this level since the daemon started.</p>}
        {lines.map((l) => <div key={l.seq} class="log-line" data-level={l.level}><span class="dim">{l.at ? new Date(l.at).toLocaleTimeString([], { hour12: false }) : ''}</span> <span class={l.level === 'error' ? 'bad' : l.level === 'warn' ? 'warn-text' : 'dim'}>{l.level}</span> <span>{plain(l.text)}</span>{l.fields.map((f) => <span key={f.name} class="dim"> {plain(f.name)}={plain(f.value)}</span>)}</div>)}
      </div>
    </section>
  );
}
