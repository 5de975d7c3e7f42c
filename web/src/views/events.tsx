// The timeline: what happened to sessions, commands and dialogues, as the daemon published it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Conn, type Push } from '../net/conn.js';
import { sessionLabel } from '../net/dialogues.js';
import { ago, duration, Empty, now, plain, Virtual } from '../ui/parts.js';
import { coarse } from '../ui/prefs.js';
import { go, href, route, setQuery } from '../ui/route.js';

const HEIGHT = coarse ? 48 : 32;
const MOST = 5000;
const QUIET = 60_000; // a longer pause is shown as one row

const words: Record<string, [string, string]> = {
  'session.created': ['+', 'session created'], 'session.running': ['●', 'command running'], 'session.idle': ['◐', 'idle'], 'session.terminated': ['○', 'session ended'],
  'session.updated': ['✎', 'session changed'], 'session.unreachable': ['▲', 'cannot be reached'], 'session.reachable': ['△', 'can be reached again'], 'session.progress': ['◌', 'being created'],
  'exec.queued': ['◌', 'command queued'], 'exec.running': ['▸', 'command started'], 'exec.exited': ['▪', 'command ended'], 'exec.closed': ['▫', 'output complete'],
  'dialogue.created': ['+', 'dialogue created'], 'dialogue.state': ['◐', 'state'], 'dialogue.request_opened': ['◆', 'the agent asks'], 'dialogue.request_closed': ['◇', 'request closed'],
  'dialogue.turn_ended': ['▪', 'turn ended'], 'dialogue.ended': ['○', 'agent ended'], 'dialogue.removed': ['✕', 'record deleted'],
};

type Row = { kind: 'event'; p: Push } | { kind: 'quiet'; ms: number; key: string } | { kind: 'missed'; n: number; key: string };

function detail(p: Push): string {
  if (p.type === 'exec.exited') return `exit status ${p.exit_code ?? '?'}${p.duration_ms !== undefined ? `, ${duration(p.duration_ms)}` : ''}`;
  if (p.type === ('dialogue.state' as string)) return p.state === 'requires_action' ? 'asks' : (p.state ?? '');
  if (p.progress) return p.progress.message;
  return p.cause ?? '';
}

export function EventsPage() {
  const [list, setList] = useState<Push[]>([]);
  const [ready, setReady] = useState(false);
  const box = useRef<HTMLElement | null>(null);
  const filter = route.value.query.get('q') ?? '';
  const stuck = useRef(true);
  useEffect(() => {
    let all: Push[] = [];
    let frame = 0;
    let last = -1;
    const show = () => { frame = 0; setReady(true); setList(all); };
    const take = (p: Push) => {
      last = Math.max(last, p.seq);
      all = [...all.slice(-(MOST - 1)), p];
      frame ||= requestAnimationFrame(show);
    };
    // A connection of its own: many old events must not delay the answers to calls.
    const c = new Conn((x) => { x.stream('event.subscribe', { after_seq: Math.max(0, last) }, take).then(() => { frame ||= requestAnimationFrame(show); }, () => undefined); });
    return () => { cancelAnimationFrame(frame); c.close(); };
  }, []);
  const fits = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const rows: Row[] = [];
  let before = 0;
  for (const p of list) {
    if (p.type === 'missed') {
      rows.push({ kind: 'missed', n: (p.to ?? 0) - (p.from ?? 0), key: 'm' + p.seq });
      continue;
    }
    const text = `${p.type} ${p.name ?? ''} ${p.session_id ?? ''} ${p.dialogue_id ?? ''} ${p.exec_id ?? ''} ${words[p.type]?.[1] ?? ''} ${detail(p)}`.toLowerCase();
    if (!fits.every((w) => text.includes(w))) continue;
    const at = p.at ? Date.parse(p.at) : before;
    if (before && at - before > QUIET) rows.push({ kind: 'quiet', ms: at - before, key: 'q' + p.seq });
    before = at;
    rows.push({ kind: 'event', p });
  }
  useEffect(() => { if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight; }, [rows.length]);
  const to = (p: Push) => (p.dialogue_id ? ['d', p.dialogue_id] : p.exec_id ? ['x', p.exec_id] : ['s', p.session_id ?? '']);
  void now.value;
  return (
    <section class="page" aria-label="Events">
      <div class="bar"><input class="filter grow" aria-label="Filter the events" placeholder="/ filter: dialogue request_opened build" value={filter} onInput={(e) => setQuery('q', e.currentTarget.value)} /></div>
      {!ready ? <Empty><p>Loading…</p></Empty> : rows.length === 0 ? <Empty><h2>{list.length ? 'No event matches' : 'Nothing has happened yet'}</h2><p class="dim">Sessions, commands and dialogues leave their events here, oldest first.</p></Empty> : (
        <Virtual count={rows.length} height={HEIGHT} class="grid timeline" label="Events" role="grid" columns={4} box={(b) => (box.current = b)} scrolled={(b) => (stuck.current = b.scrollHeight - b.scrollTop - b.clientHeight < HEIGHT * 2)}
          header={<div role="rowgroup" class="thead"><div role="row" aria-rowindex={1} class="tr">{['Time', 'Event', 'Name', 'Detail'].map((h) => <span key={h} role="columnheader">{h}</span>)}</div></div>}
          row={(i, style) => {
            const r = rows[i]!;
            if (r.kind !== 'event') return <div key={r.key} role="row" aria-rowindex={i + 2} class="tr pause" style={style}><span role="gridcell">{r.kind === 'quiet' ? `${duration(r.ms)} without events` : `${r.n} events are no longer kept`}</span></div>;
            const p = r.p;
            const [mark, word] = words[p.type] ?? ['•', p.type];
            return (
              <div key={p.seq} role="row" aria-rowindex={i + 2} class={'tr e-' + p.type.replace('.', '-')} style={style} onClick={() => go(...to(p))}>
                <span role="gridcell" class="dim" title={p.at}>{p.at ? new Date(p.at).toLocaleTimeString([], { hour12: false }) : ''} <span class="wide-only">{ago(p.at)}</span></span>
                <span role="gridcell" class="clip"><span aria-hidden="true" class="event-mark">{mark}</span> {word}</span>
                <span role="gridcell" class="clip"><a href={href(...to(p))}>{plain(sessionLabel(p.name || p.dialogue_id || p.session_id || ''))}</a></span>
                <span role="gridcell" class="clip dim">{plain(detail(p))}</span>
              </div>
            );
          }} />
      )}
      <div class="foot dim" role="status">{list.length} events{fits.length ? `, ${rows.filter((r) => r.kind === 'event').length} shown` : ''}</div>
    </section>
  );
}
