// The health of the daemon: what it is, what it uses, its limits, and the places it can reach.
import { useEffect, useState } from 'preact/hooks';
import type { RuntimeListResult, SessionUsage, SystemInfoResult, SystemStatsResult } from '../../../sdk/typescript/src/types.js';
import { dialogues, sessionLabel, waiting } from '../net/dialogues.js';
import { me } from '../net/login.js';
import { control, epoch, sessions } from '../net/sessions.js';
import { bytes, duration, Empty, plain } from '../ui/parts.js';
import { href } from '../ui/route.js';

export function DaemonPage() {
  const [info, setInfo] = useState<SystemInfoResult>();
  const [stats, setStats] = useState<SystemStatsResult>();
  const [places, setPlaces] = useState<RuntimeListResult>();
  const [usage, setUsage] = useState<SessionUsage[]>();
  useEffect(() => {
    void control.call<SystemInfoResult>('system.info').then(setInfo, () => undefined);
    void control.call<RuntimeListResult>('runtime.list').then(setPlaces, () => undefined);
    const read = () => void control.call<SystemStatsResult>('system.stats').then(setStats, () => undefined);
    read();
    let stream = '';
    let over = false;
    // The measurements come by themselves; the counts of the daemon are read with each.
    control.stream('usage.subscribe', { interval_s: 5 }, (p) => { if (p.sessions) setUsage(p.sessions); read(); }).then((s) => { stream = s.stream_id; if (over) control.end(stream); }, () => undefined);
    return () => { over = true; if (stream) control.end(stream); };
  }, [epoch.value]);
  if (!info || !stats) return <Empty><p>Loading…</p></Empty>;
  const most = Number(info.limits['max_sessions'] ?? 0);
  const busy = [...(usage ?? [])].sort((a, b) => (b.cpu_percent ?? 0) - (a.cpu_percent ?? 0) || b.memory_bytes - a.memory_bytes).slice(0, 10);
  const cards: [string, string, string][] = [
    ['Up for', duration(stats.uptime_s * 1000), `process ${info.pid}`],
    ['Sessions', String(stats.active_sessions), most ? `of at most ${most}` : ''],
    ['Dialogues', String([...dialogues.value.values()].filter((d) => d.state !== 'ended').length), waiting.value.length ? `${waiting.value.length} ask` : 'none asks'],
    ['Commands', stats.total_commands_run.toLocaleString(), 'since the start'],
    ['Memory', bytes(stats.memory_rss_bytes), 'without the sessions'],
    ['Connections', String(stats.connections), `${stats.open_fds} open files`],
  ];
  const facts: [string, string][] = [
    ['version', `${info.version} (API ${info.api_version})`], ['machine', `${me.value?.host ?? ''} (${info.os} ${info.arch})`], ['http', info.http ?? ''], ['grpc', info.grpc ?? 'off'], ['settings', info.config_file ?? ''], ['can also', info.capabilities.join(', ')],
  ];
  return (
    <section class="page scroll" aria-label="Health">
      <h1>Health</h1>
      <div class="cards">{cards.map(([k, v, more]) => <div key={k} class="stat"><span class="dim">{k}</span><strong>{v}</strong><span class="dim">{more}</span></div>)}</div>
      <h2>The daemon</h2>
      <dl class="facts">{facts.filter(([, v]) => v).map(([k, v]) => <><dt key={k}>{k}</dt><dd key={k + '='}>{plain(v)}</dd></>)}</dl>
      <h2>Busiest sessions</h2>
      {busy.length === 0 ? <p class="dim">{usage ? 'No session is alive.' : 'Measuring…'}</p> : (
        <table class="table"><thead><tr><th scope="col">Session</th><th scope="col">CPU</th><th scope="col">Memory</th><th scope="col">Processes</th></tr></thead>
          <tbody>{busy.map((u) => <tr key={u.session_id}><td class="clip"><a class="link" href={dialogues.value.has(u.name) ? href('d', u.name) : href('s', u.session_id)}>{plain(sessionLabel(u.name || sessions.value.get(u.session_id)?.name || u.session_id))}</a></td><td>{u.cpu_percent === undefined ? '' : `${Math.round(u.cpu_percent)} %`}</td><td>{bytes(u.memory_bytes)}</td><td>{u.processes}</td></tr>)}</tbody></table>
      )}
      {places && <><h2>Places</h2><ul class="plain places">{places.runtimes.map((r) => <li key={r.runtime}><span class={!r.usable ? 'dim' : 'good'} aria-hidden="true">{!r.usable ? '○' : '●'}</span> <code>{plain(r.runtime)}{r.argument ? ':' + plain(r.argument) : ''}</code> <span class="dim">{!r.usable ? `not usable${r.why ? ': ' + plain(r.why) : ''}` : r.sessions ? `${r.sessions} ${r.sessions === 1 ? 'session' : 'sessions'}` : 'usable'}</span></li>)}</ul></>}
      <details><summary>Limits</summary><dl class="facts">{Object.entries(info.limits).sort().map(([k, v]) => <><dt key={k}>{k}</dt><dd key={k + '='}>{v}</dd></>)}</dl></details>
      <p class="dim">On the machine itself, <code>trl doctor</code> checks the rest.</p>
    </section>
  );
}
