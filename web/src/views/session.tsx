// One session: its terminal, its commands, what is known about it.
import { useEffect, useState } from 'preact/hooks';
import type { ExecInfo, SessionDetails, SessionInfo } from '../../../sdk/typescript/src/types.js';
import { shared } from '../net/login.js';
import { control, epoch, execsOf, learn, loaded, mayWrite, onEvent, sessions } from '../net/sessions.js';
import { ago, attempt, bytes, duration, Empty, plain, StateMark } from '../ui/parts.js';
import { go, href } from '../ui/route.js';
import { LogPage } from './log.js';
import { kill, rename, title } from './sessions.js';
import { sharing } from './share.js';
import { TerminalView } from './terminal.js';

const tabs: Record<string, string[]> = { terminal: ['screen', 'info'], shell: ['commands', 'info'], program: ['output', 'info'] };

export function SessionPage({ id, tab }: { id: string; tab: string | undefined }) {
  const s = sessions.value.get(id);
  const [missing, setMissing] = useState('');
  useEffect(() => {
    setMissing('');
    if (s || !loaded.value) return;
    control.call<SessionInfo>('session.info', { session_id: id }).then((i) => { if (i.session_id !== id) go('s', i.session_id); learn(i); }, (e) => { if (!e.lost) setMissing(e.message); });
  }, [id, loaded.value, epoch.value]);
  if (!s) return missing ? <Empty><h2>There is no such session</h2><p class="wrap">{missing}</p><p><a href="#/">All sessions</a></p></Empty> : <Empty><p>Loading…</p></Empty>;
  const all = tabs[s.kind] ?? ['info'];
  const now = tab && all.includes(tab) ? tab : all[0]!;
  const live = s.state !== 'terminated';
  return (
    <section class="page" aria-label={`Session ${title(s)}`}>
      <div class="bar head">
        {!shared.value && <a class="back" href="#/" aria-label="Back to all sessions">←</a>}
        <h1 class="clip">{plain(title(s))}</h1>
        <StateMark state={s.reachable || !live ? s.state : 'unreachable'} />
        <nav class="tabs grow" aria-label="Views of this session">{all.map((t) => <a key={t} href={href('s', id, t)} aria-current={t === now ? 'page' : undefined}>{t}</a>)}</nav>
        {s.tags.includes('agent-dialogue') && <a class="link" href={href('d', s.name)}>Its dialogue</a>}
        {mayWrite.value && live && <button class="small wide-only" onClick={() => shareSession(s)}>Share</button>}
        {mayWrite.value && live && <button class="small wide-only" onClick={() => rename(s)}>Rename</button>}
        {mayWrite.value && live && <button class="small danger" onClick={() => kill(s)}>End</button>}
      </div>
      {!live && <div class="note" role="status">Ended {ago(s.terminated_at) === 'now' ? 'just now' : `${ago(s.terminated_at)} ago`}: {plain(s.cause ?? '')}</div>}
      {live && !s.reachable && <div class="note warn" role="status">Cannot be reached: {plain(s.unreachable_why ?? '')}. Its processes keep running.</div>}
      {now === 'screen' && <TerminalView key={id} session={s} />}
      {now === 'commands' && <Commands session={s} />}
      {now === 'output' && (s.exec_id ? <LogPage id={s.exec_id} /> : <ProgramOutput id={id} />)}
      {now === 'info' && <Info id={id} version={s} />}
    </section>
  );
}

function shareSession(s: SessionInfo): void { sharing.value = { name: title(s), what: { session_id: s.session_id } }; }

// The program of an ended session is its only command.
function ProgramOutput({ id }: { id: string }) {
  const [exec, setExec] = useState('');
  useEffect(() => void execsOf(id).then((l) => setExec(l[0]?.exec_id ?? ''), () => undefined), [id]);
  return exec ? <LogPage id={exec} /> : <Empty><p>None of its output was kept.</p></Empty>;
}

function Commands({ session }: { session: SessionInfo }) {
  const id = session.session_id;
  const [list, setList] = useState<ExecInfo[]>();
  const [text, setText] = useState('');
  const [input, setInput] = useState(false);
  useEffect(() => {
    execsOf(id).then(setList, () => undefined);
    return onEvent((p) => {
      if (p.session_id !== id || !p.exec_id) return;
      control.call<ExecInfo>('exec.info', { exec_id: p.exec_id }).then((i) => setList((l) => {
        const rest = (l ?? []).filter((x) => x.exec_id !== i.exec_id);
        return [...rest, i].sort((a, b) => Date.parse(a.queued_at) - Date.parse(b.queued_at) || number(a) - number(b));
      }), () => undefined);
    });
  }, [id, epoch.value]);
  const run = () => {
    const command = text;
    if (!command.trim()) return;
    void attempt(async () => {
      const e = await control.call<ExecInfo>('exec.start', { session_id: id, command, wait: true, stdin_open: input, run_id: crypto.randomUUID?.() ?? String(Math.random()) });
      setText('');
      go('x', e.exec_id);
    });
  };
  const rows = [...(list ?? [])].reverse();
  return (
    <>
      {mayWrite.value && session.state !== 'terminated' && (
        <form class="bar" onSubmit={(e) => { e.preventDefault(); run(); }}>
          <input class="grow mono command" aria-label="Run a command" placeholder={`Run a command in ${plain(session.working_dir)}`} value={text} onInput={(e) => setText(e.currentTarget.value)} autocomplete="off" spellcheck={false} />
          <label class="check" title="Its stdin stays open, and its page has a field for it"><input type="checkbox" checked={input} onChange={(e) => setInput(e.currentTarget.checked)} /> with input</label>
          <button type="submit" class="primary">Run</button>
        </form>
      )}
      {list && rows.length === 0 ? <Empty><p>No command has run here yet.</p><pre>trl run -s {plain(title(session))} 'make test'</pre></Empty> : (
        <ul class="execs" aria-label="Commands, newest first">
          {rows.slice(0, 500).map((e) => (
            <li key={e.exec_id}>
              <a href={href('x', e.exec_id)}>
                <StateMark state={e.state} />
                <code class="clip grow">{plain(e.command)}</code>
                <span class={e.outcome && e.outcome.exit_code !== 0 ? 'bad' : 'dim'}>{e.outcome ? (e.outcome.timed_out ? 'timed out' : e.outcome.cancelled ? 'cancelled' : `exit ${e.outcome.exit_code}`) : e.error ? 'did not start' : ''}</span>
                <span class="dim">{e.outcome ? duration(e.outcome.duration_ms) : ago(e.queued_at)}</span>
                <span class="dim">{bytes(e.stdout_bytes + e.stderr_bytes)}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function number(e: ExecInfo): number { return Number(e.exec_id.split('-').at(-1)) || 0; }

function Info({ id, version }: { id: string; version: SessionInfo }) {
  const [d, setD] = useState<SessionDetails>();
  useEffect(() => void control.call<SessionDetails>('session.info', { session_id: id }).then(setD, () => undefined), [id, version]);
  if (!d) return <Empty><p>Loading…</p></Empty>;
  const i = d.isolation;
  const facts: [string, string][] = [
    ['id', d.session_id], ['kind', d.kind], ['where', d.runtime], ['shell', d.shell], ['directory', d.working_dir], ['command', (d.command ?? []).join(' ')],
    ['created', new Date(d.created_at).toLocaleString()], ['last activity', new Date(d.last_activity).toLocaleString()], ['commands', String(d.command_count)],
    ['output kept', bytes(d.output_bytes)], ['tags', d.tags.join(', ')], ['variables', d.env_keys.join(', ')], ['ends', d.ends_in_s !== undefined ? `in ${duration(d.ends_in_s * 1000)}: ${d.ends_why ?? ''}` : ''],
    ['cause of the end', d.cause ?? ''], ['recording', d.terminal?.recording?.path ?? ''], ['kill enforced by', d.enforcement],
    ['isolation', i ? `${i.profile ? i.profile + ': ' : ''}files ${i.files}, network ${i.network}, processes ${i.processes}` : ''], ['not enforced', (i?.not_enforced ?? []).map((a) => `${a.aspect}: ${a.reason}`).join('; ')],
  ];
  return (
    <div class="scroll">
      {mayWrite.value && d.state !== 'terminated' && <p class="group narrow-only"><button onClick={() => shareSession(d)}>Share…</button><button onClick={() => rename(d)}>Rename…</button></p>}
      <dl class="facts">{facts.filter(([, v]) => v).map(([k, v]) => <><dt key={k}>{k}</dt><dd key={k + '='}>{plain(v)}</dd></>)}</dl>
      {d.processes.length > 0 && <><h2>Processes</h2><ul class="plain">{d.processes.map((p) => <li key={p.pid}><code>{p.pid} {plain(p.command ?? '')}</code></li>)}</ul></>}
      <h2>From the command line</h2>
      <pre>trl {d.kind === 'terminal' ? 'attach' : d.kind === 'shell' ? 'run -s' : 'logs -f'} {plain(title(d))}{d.kind === 'shell' ? " 'pwd'" : ''}</pre>
    </div>
  );
}
