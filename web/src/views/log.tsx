// The output of one command.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ExecInfo } from '../../../sdk/typescript/src/types.js';
import { download } from '../net/login.js';
import { grep, Log, type Hit, type StreamName } from '../net/log.js';
import { control, epoch, mayWrite, onEvent } from '../net/sessions.js';
import { Ansi } from '../ui/ansi.js';
import { attempt, bytes, duration, Empty, plain, StateMark, toast, Virtual } from '../ui/parts.js';
import { href } from '../ui/route.js';

const ROW = 20;

export function LogPage({ id }: { id: string }) {
  const [info, setInfo] = useState<ExecInfo>();
  const [error, setError] = useState('');
  const [stream, setStream] = useState<StreamName>('stdout');
  const ask = () => void control.call<ExecInfo>('exec.info', { exec_id: id }).then((i) => { setInfo(i); setError(''); }, (e) => { if (!e.lost) setError(e.message); });
  useEffect(ask, [id, epoch.value]);
  useEffect(() => onEvent((p) => { if (p.exec_id === id) ask(); }), [id]);
  if (error) return <Empty><h2>There is no output to show</h2><p class="wrap">{error}</p><p><a href="#/">All sessions</a></p></Empty>;
  if (!info) return <Empty><p>Loading…</p></Empty>;
  return (
    <section class="page log" aria-label="Output of a command">
      <Header info={info} />
      <Output key={id + stream} info={info} stream={stream} choose={setStream} />
      {info.stdin_open && mayWrite.value && info.state === 'running' && <Stdin exec={id} />}
    </section>
  );
}

function outcome(i: ExecInfo): string {
  const o = i.outcome;
  if (i.error) return i.error.message;
  if (!o) return '';
  const how = o.timed_out ? 'timed out' : o.cancelled ? 'cancelled' : o.signal ? `ended by ${o.signal}` : `exit status ${o.exit_code}`;
  const rest = [
    duration(o.duration_ms), o.killed.length > 0 ? `${o.killed.length} ${o.killed.length === 1 ? 'process' : 'processes'} ended` : '', o.left_running.length > 0 ? `${o.left_running.length} still running` : '',
  ].filter(Boolean);
  return [how, ...rest].join(' · ');
}

function Header({ info }: { info: ExecInfo }) {
  const cancel = (signal: string) => void attempt(() => control.call('exec.cancel', { exec_id: info.exec_id, ...(signal ? { signal } : {}) }));
  return (
    <div class="bar head">
      <a class="back" href={href('s', info.session_id, 'commands')} aria-label="Back to the session">←</a>
      <code class="grow clip" title={plain(info.command)}>{plain(info.command)}</code>
      <StateMark state={info.state} />
      <span class={info.outcome && info.outcome.exit_code !== 0 ? 'bad' : 'dim'}>{outcome(info)}</span>
      {mayWrite.value && (info.state === 'running' || info.state === 'queued') && (
        <span class="group">
          <button class="danger small" onClick={() => cancel('')}>Cancel</button>
          <select aria-label="Cancel with a signal" value="" onChange={(e) => { cancel(e.currentTarget.value); e.currentTarget.value = ''; }}>
            <option value="" disabled>signal…</option>
            {['INT', 'TERM', 'HUP', 'QUIT', 'KILL'].map((s) => <option key={s} value={s}>{s}</option>)}
          </select>
        </span>
      )}
    </div>
  );
}

function Output({ info, stream, choose }: { info: ExecInfo; stream: StreamName; choose(s: StreamName): void }) {
  const [log, setLog] = useState<Log>();
  const [pattern, setPattern] = useState('');
  const [hits, setHits] = useState<{ list: Hit[]; done: boolean; error?: string }>();
  const [marked, setMarked] = useState(-1);
  const box = useRef<HTMLElement | null>(null);
  const stick = useRef(true);
  const run = useRef(0);
  useEffect(() => {
    const l = new Log(info.exec_id, stream);
    setLog(l);
    return () => l.close();
  }, []);
  const version = log?.version.value ?? 0;
  const anchor = useRef<{ offset: number; top: number } | null>(null);

  useEffect(() => { if (log && log.version.value === 0) void log.toEnd(); }, [epoch.value]); // the connection was lost before the first answer
  const last = useRef(0);
  // After the rows have changed: stay at the end, or keep what is read in its place.
  useLayoutEffect(() => {
    const b = box.current;
    if (!b || !log) return;
    if (marked >= 0 && log.rowOf(marked) >= 0) b.scrollTop = Math.max(0, log.rowOf(marked) * ROW - b.clientHeight / 2);
    else if (anchor.current) b.scrollTop = log.rowOf(anchor.current.offset) * ROW + anchor.current.top;
    else if (stick.current && log.following.value) b.scrollTop = b.scrollHeight;
    anchor.current = null;
    last.current = b.scrollTop;
  }, [version, marked]);

  const hold = (b: HTMLElement) => {
    const i = Math.floor(b.scrollTop / ROW);
    const r = log?.rows[i];
    anchor.current = r ? { offset: r.gap ? r.gap.from : r.from, top: b.scrollTop - i * ROW } : null;
  };
  const scrolled = (b: HTMLElement) => {
    if (!log) return;
    const end = b.scrollTop + b.clientHeight >= b.scrollHeight - 48;
    if (end) stick.current = true;
    else if (b.scrollTop < last.current - 1) stick.current = false; // a person scrolled up; rows that came below are no reason
    last.current = b.scrollTop;
    if (b.scrollTop < 400 && log.hasBefore) { setMarked(-1); hold(b); void log.before(); }
    else if (end && log.hasAfter && !log.following.value) { hold(b); void log.after(); }
  };
  const search = async (text: string) => {
    const me = ++run.current;
    if (!text) return setHits(undefined);
    const list: Hit[] = [];
    setHits({ list, done: false });
    try {
      for await (const part of grep(info.exec_id, stream, text)) {
        if (me !== run.current) return;
        list.push(...part.hits);
        setHits({ list: list.slice(0, 2000), done: part.done });
        if (list.length >= 2000) return;
      }
    } catch (e) {
      setHits({ list, done: true, error: (e as Error).message });
    }
  };
  const show = (h: Hit) => { stick.current = false; setMarked(h.offset); void log?.around(h.offset); };
  const toEnd = () => { stick.current = true; setMarked(-1); anchor.current = null; void log?.toEnd(); };
  const name = `${info.exec_id}-${stream}.txt`;
  const save = () => void attempt(async () => {
    const whole = await control.call<{ gap?: { to: number } }>('exec.output', { exec_id: info.exec_id, stream, limit: 1 });
    if (whole.gap) toast(`The first ${bytes(whole.gap.to)} are no longer kept; the file begins after them.`);
    await download(`/v1/exec/${encodeURIComponent(info.exec_id)}/${stream}${whole.gap ? `?offset=${whole.gap.to}` : ''}`, name);
  });
  const total = log?.total.value ?? 0;

  return (
    <>
      <div class="bar log-bar">
        <span class="tabs" role="group" aria-label="Stream">
          {(['stdout', 'stderr'] as const).map((s) => (
            <button key={s} aria-pressed={s === stream} onClick={() => choose(s)}>{s} <span class="dim">{bytes(s === 'stdout' ? info.stdout_bytes : info.stderr_bytes)}</span></button>
          ))}
        </span>
        <form class="grow" role="search" onSubmit={(e) => { e.preventDefault(); void search(pattern); }}>
          <input class="filter" aria-label="Search the whole output" placeholder="/ search the whole output (regular expression)" value={pattern} onInput={(e) => { setPattern(e.currentTarget.value); if (!e.currentTarget.value) void search(''); }} />
        </form>
        <button class="small" onClick={() => { stick.current = false; setMarked(-1); void log?.toStart().then(() => { if (box.current) box.current.scrollTop = 0; }); }}>Top</button>
        <button class="small" aria-pressed={log?.following.value} onClick={toEnd}>{log?.complete.value ? 'End' : 'Follow'}</button>
        <button class="small" onClick={save}>Download</button>
      </div>
      {log?.error.value && <div class="note warn" role="status">{log.error.value}</div>}
      <div class="split">
        {log && total === 0 && log.version.value > 0
          ? <Empty><p>{info.state === 'running' ? `Nothing on ${stream} yet. It appears here as it comes.` : `The command wrote nothing to ${stream}.`}</p></Empty>
          : log && (
            <Virtual count={log.rows.length} height={ROW} class="lines" label={`Output, ${stream}`} role="region" box={(b) => (box.current = b)} scrolled={scrolled}
              resized={() => { if (stick.current && box.current && log.following.value) box.current.scrollTop = box.current.scrollHeight; }}
              row={(i, style) => {
                const r = log.rows[i]!;
                if (r.gap) return <div key={i} class="gap" style={style}>{bytes(r.gap.to - r.gap.from)} not kept</div>;
                const at = r.from <= marked && marked <= r.to;
                return <div key={i} class={'row' + (at ? ' marked' : '')} style={style} data-offset={r.from}><Ansi text={log.text(r)} /></div>;
              }} />
          )}
        {hits && (
          <aside class="hits" aria-label="Found lines">
            <header>{hits.error ? <span class="bad wrap">{hits.error}</span> : `${hits.list.length}${hits.done ? '' : '+'} ${hits.list.length === 1 ? 'line' : 'lines'}`}</header>
            <ul>{hits.list.slice(0, 500).map((h) => <li key={h.offset}><button class="hit" onClick={() => show(h)}><Ansi text={h.text.slice(0, 300)} /></button></li>)}</ul>
            {hits.done && hits.list.length === 0 && !hits.error && <p class="dim">Nothing in {bytes(total)} matches.</p>}
          </aside>
        )}
      </div>
    </>
  );
}

function Stdin({ exec }: { exec: string }) {
  const [text, setText] = useState('');
  const send = (more: object) => void attempt(() => control.call('exec.input', { exec_id: exec, write_id: `${Date.now()}-${Math.random()}`, ...more }));
  return (
    <form class="bar" onSubmit={(e) => { e.preventDefault(); send({ data: text + '\n' }); setText(''); }}>
      <input class="grow" aria-label="A line for the command's input" placeholder="Send a line to its input" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      <button type="submit" class="primary">Send</button>
      <button type="button" onClick={() => send({ close: true })}>Close input</button>
    </form>
  );
}
