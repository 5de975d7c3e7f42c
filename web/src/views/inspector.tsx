// The Stream Inspector: every line between TRL and the agent's program, in both directions, with the
// events that each caused.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { DialogueInfo, DialogueLine, DialogueLinesResult, DialogueRawResult } from '../../../sdk/typescript/src/types.js';
import { dialogues, dialoguesLoaded, learnDialogue, nameOf } from '../net/dialogues.js';
import { download } from '../net/login.js';
import { control, epoch as connection } from '../net/sessions.js';
import { attempt, bytes, Empty, lines as clean, plain, toast, Virtual } from '../ui/parts.js';
import { coarse } from '../ui/prefs.js';
import { href, route, setQuery } from '../ui/route.js';

const HEIGHT = coarse ? 48 : 30;
const PAGE = 200;
const LOOK = 50; // pages of 1000 lines that are searched for an item

type Which = 'both' | 'stdout' | 'stdin';
interface Loaded { lines: DialogueLine[]; next: number; total: number; totalIn: number; hasBefore: boolean; complete: boolean; epoch: number }

const keyOf = (l: DialogueLine) => l.stream + l.offset;

export function InspectorPage({ id }: { id: string }) {
  const d = dialogues.value.get(id);
  const [missing, setMissing] = useState('');
  useEffect(() => {
    if (d || !dialoguesLoaded.value) return;
    control.call<DialogueInfo>('dialogue.info', { dialogue_id: id }).then((i) => { learnDialogue(i); if (i.dialogue_id !== id) location.replace(href('d', i.dialogue_id, 'raw')); }, (e) => { if (!e.lost) setMissing(e.message); });
  }, [id, dialoguesLoaded.value, connection.value]);
  if (!d) return missing ? <Empty><h2>There is no such dialogue</h2><p class="wrap">{missing}</p></Empty> : <Empty><p>Loading…</p></Empty>;
  return <Inspector key={id} d={d} />;
}

function Inspector({ d }: { d: DialogueInfo }) {
  const id = d.dialogue_id;
  const q = route.value.query;
  const epoch = Number(q.get('epoch')) || d.epoch;
  const which = (['stdout', 'stdin'].includes(q.get('stream') ?? '') ? q.get('stream') : 'both') as Which;
  const only = q.get('only') === 'unparsed';
  const [data, setData] = useState<Loaded>();
  const [chosen, setChosen] = useState('');
  const [error, setError] = useState('');
  const [looking, setLooking] = useState(false);
  const box = useRef<HTMLElement | null>(null);
  const now = useRef<Loaded | undefined>();
  const busy = useRef('');
  const follow = useRef(true);
  now.current = data;

  const ask = (p: object) => control.call<DialogueLinesResult>('dialogue.lines', { dialogue_id: id, epoch, stream: which, limit: PAGE, ...p });
  const keep = (l: Loaded) => { now.current = l; setData(l); };
  const firstOf = (list: DialogueLine[]) => list.find((l) => (which === 'stdin' ? l.stream === 'stdin' : l.stream === 'stdout'))?.offset ?? 0;

  const load = async (at?: number) => {
    const r = at === undefined ? await ask({ before_offset: -1 }) : await ask({ from_offset: at });
    keep({ lines: r.lines, next: r.next_offset, total: r.total, totalIn: r.total_stdin, hasBefore: firstOf(r.lines) > 0, complete: r.complete, epoch: r.epoch });
    follow.current = at === undefined;
    return r;
  };
  const earlier = async () => {
    const l = now.current;
    if (!l?.hasBefore || busy.current) return;
    busy.current = 'before';
    try {
      const r = await ask({ before_offset: firstOf(l.lines) });
      const known = new Set(l.lines.map(keyOf));
      const more = r.lines.filter((x) => !known.has(keyOf(x)));
      const top = box.current?.scrollTop ?? 0;
      keep({ ...l, lines: [...more, ...l.lines], hasBefore: more.length > 0 && firstOf(more) > 0 });
      requestAnimationFrame(() => { if (box.current) box.current.scrollTop = top + more.length * HEIGHT; });
    } catch { /* the next scroll tries again */ } finally {
      busy.current = '';
    }
  };
  const later = async () => {
    const l = now.current;
    if (!l || busy.current) return;
    busy.current = 'after';
    try {
      const r = await ask({ from_offset: l.next });
      const known = new Set(l.lines.map(keyOf));
      const fresh = new Map(r.lines.map((x) => [keyOf(x), x]));
      const more = r.lines.filter((x) => !known.has(keyOf(x)));
      // A line that had no end yet comes again.
      keep({ ...l, lines: [...l.lines.map((x) => (x.partial ? (fresh.get(keyOf(x)) ?? x) : x)), ...more], next: r.next_offset, total: r.total, totalIn: r.total_stdin, complete: r.complete });
    } catch { /* the next event or scroll tries again */ } finally {
      busy.current = '';
    }
  };

  // The first page: at an offset, at the lines of an item, or the end.
  useEffect(() => {
    let over = false;
    setError('');
    void (async () => {
      try {
        const item = q.get('item');
        const at = q.get('at');
        if (item) {
          setLooking(true);
          const found = await find(id, item, d.epoch);
          setLooking(false);
          if (over) return;
          if (!found) toast('This item does not come from a line of the agent.', { bad: true });
          else {
            if (found.epoch !== epoch) setQuery('epoch', String(found.epoch));
            await load(Math.max(0, found.from));
            setChosen(found.stream + found.offset);
            return;
          }
        }
        await load(at ? Number(at) : undefined);
        if (at) setChosen('stdout' + at);
      } catch (e) {
        setLooking(false);
        if (!over && !(e as { lost?: boolean }).lost) setError((e as Error).message);
      }
    })();
    return () => { over = true; };
  }, [id, epoch, which, q.get('item'), connection.value]);

  // New lines are read when the dialogue has new events, or when its state changes.
  useEffect(() => {
    let stream = '';
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const soon = () => { timer ??= setTimeout(() => { timer = undefined; if (follow.current) void later(); }, 100); };
    control.stream('dialogue.events', { dialogue_id: id, after_seq: d.seq, no_deltas: true, passive: true }, soon).then((s) => { stream = s.stream_id; if (over) control.end(stream); }, () => undefined);
    return () => { over = true; clearTimeout(timer); if (stream) control.end(stream); };
  }, [id, epoch, which, d.epoch, connection.value]);

  const list = (data?.lines ?? []).filter((l) => !only || l.unparsed);
  const at = list.findIndex((l) => keyOf(l) === chosen);
  useEffect(() => {
    const b = box.current;
    if (!b || list.length === 0) return;
    if (at >= 0) { if ((at + 1) * HEIGHT > b.scrollTop + b.clientHeight - HEIGHT || at * HEIGHT < b.scrollTop) b.scrollTop = Math.max(0, at * HEIGHT - b.clientHeight / 2); }
    else if (follow.current) b.scrollTop = b.scrollHeight;
  }, [at, data === undefined, data?.next]);
  const keys = (e: KeyboardEvent) => {
    const go = (n: number) => { const l = list[Math.max(0, Math.min(list.length - 1, n))]; if (l) setChosen(keyOf(l)); };
    const run: Record<string, () => void> = { ArrowDown: () => go(at + 1), j: () => go(at + 1), ArrowUp: () => go(at - 1), k: () => go(at - 1), Home: () => go(0), End: () => go(list.length - 1), PageDown: () => go(at + 15), PageUp: () => go(at - 15), Escape: () => setChosen('') };
    if (e.ctrlKey || e.altKey || e.metaKey || !run[e.key]) return;
    e.preventDefault();
    run[e.key]!();
  };
  const unparsed = (data?.lines ?? []).filter((l) => l.unparsed).length;
  return (
    <section class="page" aria-label={`Stream Inspector of ${plain(nameOf(d))}`}>
      <div class="bar head">
        <a class="back" href={href('d', id)} aria-label="Back to the transcript">←</a>
        <h1 class="clip">{plain(nameOf(d))}</h1><span class="dim wide-only">Stream Inspector</span><span class="grow" />
        {d.epoch > 1 && <label class="chip-select"><span class="hidden">Process</span><select value={String(epoch)} onChange={(e) => { setQuery('item', ''); setQuery('at', ''); setQuery('epoch', e.currentTarget.value); setChosen(''); }}>{Array.from({ length: d.epoch }, (_, i) => <option key={i} value={String(i + 1)}>process {i + 1}</option>)}</select></label>}
        <label class="chip-select"><span class="hidden">Direction</span><select value={which} onChange={(e) => { setQuery('item', ''); setQuery('stream', e.currentTarget.value === 'both' ? '' : e.currentTarget.value); setChosen(''); }}><option value="both">both directions</option><option value="stdout">← from the agent</option><option value="stdin">→ to the agent</option></select></label>
        <button class="small" aria-pressed={only} onClick={() => setQuery('only', only ? '' : 'unparsed')}>Not understood{unparsed ? ` (${unparsed})` : ''}</button>
        <button class="small wide-only" onClick={() => void attempt(() => download(`/v1/dialogue/${id}/raw?epoch=${epoch}&stream=${which === 'stdin' ? 'stdin' : 'stdout'}`, `${id}.${epoch}.${which === 'stdin' ? 'stdin' : 'stdout'}.jsonl`))}>Download</button>
      </div>
      {error ? <Empty><h2>The lines cannot be read</h2><p class="wrap">{error}</p></Empty> : !data || looking ? <Empty><p>{looking ? 'Looking for the lines of this item…' : 'Loading…'}</p></Empty> : list.length === 0 ? <Empty><p>{only ? 'TRL understood every line that is loaded.' : 'No lines yet.'}</p></Empty> : (
        <div class="split inspector">
          <Virtual count={list.length} height={HEIGHT} class="grid raw-lines" label="Lines" role="grid" columns={6} keys={keys} active={at >= 0 ? 'line-' + chosen : undefined} box={(b) => { // at the end from the beginning: from the top it would read what comes before
            box.current = b;
            if (b && follow.current && at < 0) b.scrollTop = b.scrollHeight;
          }}
            scrolled={(b) => {
              follow.current = b.scrollHeight - b.scrollTop - b.clientHeight < HEIGHT * 2;
              if (b.scrollTop < 400) void earlier();
              if (follow.current && now.current && now.current.next < now.current.total) void later();
            }}
            header={<div role="rowgroup" class="thead"><div role="row" aria-rowindex={1} class="tr">{['Time', 'Direction', 'Offset', 'Bytes', 'Line', 'Became'].map((h) => <span key={h} role="columnheader">{h}</span>)}</div></div>}
            row={(i, style) => {
              const l = list[i]!;
              const key = keyOf(l);
              return (
                <div key={key} id={'line-' + key} role="row" aria-rowindex={i + 2} aria-selected={key === chosen} class={'tr' + (key === chosen ? ' at' : '') + (l.unparsed ? ' odd' : '')} style={style} data-line={key} onClick={() => setChosen(key)}>
                  <span role="gridcell" class="dim">{l.at ? time(l.at) : ''}</span>
                  <span role="gridcell">{l.stream === 'stdout' ? <span title="from the agent">←<span class="hidden"> from the agent</span></span> : <span title="to the agent">→<span class="hidden"> to the agent</span></span>}</span>
                  <span role="gridcell" class="mono num">{l.offset}</span>
                  <span role="gridcell" class="mono num dim">{l.bytes}</span>
                  <span role="gridcell" class="clip mono">{l.type ? <strong>{plain(l.type)} </strong> : null}<span class="dim">{plain(l.text.slice(0, 300))}</span></span>
                  <span role="gridcell" class="clip">{l.unparsed ? <span class="badge">not understood: {plain(l.unparsed)}</span> : <Became line={l} />}</span>
                </div>
              );
            }} />
          {at >= 0 && <Detail key={chosen} id={id} epoch={data.epoch} line={list[at]!} close={() => { setChosen(''); box.current?.focus(); }} />}
        </div>
      )}
      <div class="foot dim" role="status">{data ? `${(data.lines.length).toLocaleString()} lines loaded · ${bytes(data.total)} ${which === 'stdin' ? 'to the agent' : 'from the agent'}${which === 'both' ? ` · ${bytes(data.totalIn)} to it` : ''}` : ''}<span class="hint"> · j k move · Enter on an event shows its item</span></div>
    </section>
  );
}

function time(at: string): string {
  const t = new Date(at);
  return `${t.toLocaleTimeString([], { hour12: false })}.${String(t.getMilliseconds()).padStart(3, '0')}`;
}

function Became({ line }: { line: DialogueLine }) {
  const list = line.events;
  if (list.length === 0) return null;
  return <span class="dim">{list.slice(0, 4).map((e) => `#${e.seq} ${e.type}`).join('  ')}{list.length > 4 ? `  +${list.length - 4}` : ''}</span>;
}

function Detail({ id, epoch, line, close }: { id: string; epoch: number; line: DialogueLine; close(): void }) {
  const [text, setText] = useState(line.text);
  const [whole, setWhole] = useState(!line.cut);
  const [raw, setRaw] = useState(false);
  const load = () => void attempt(async () => {
    const r = await control.call<DialogueRawResult>('dialogue.raw', { dialogue_id: id, epoch, stream: line.stream, offset: line.offset, limit: Math.min(line.bytes, 4 << 20) });
    setText(r.data.replace(/\r?\n$/, ''));
    setWhole(r.data.length >= line.bytes || line.bytes <= 4 << 20);
  });
  useEffect(() => { if (line.cut && line.bytes <= 256 << 10) load(); }, []);
  let shown = text;
  if (!raw) {
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch { /* shown as it is */ }
  }
  return (
    <aside class="detail" aria-label="Line">
      <header class="group">
        <strong>{line.stream === 'stdout' ? '← from the agent' : '→ to the agent'}</strong><span class="dim">at {line.offset}, {line.bytes} bytes</span><span class="grow" />
        <button class="small" aria-pressed={raw} onClick={() => setRaw(!raw)}>Raw</button><button class="icon" aria-label="Close the line" onClick={close}>×</button>
      </header>
      {line.unparsed && <p class="warn-text">TRL does not understand this line: {plain(line.unparsed)}. It is kept, and the dialogue goes on.</p>}
      {line.events.length > 0 && <ul class="plain news">{line.events.map((e) => <li key={e.seq}><span class="dim">#{e.seq}</span> {e.type} {e.item_id && <a class="link" href={href('d', id, 'i', e.item_id)}>show in the transcript</a>}</li>)}</ul>}
      <pre tabIndex={0} aria-label="Text of the line">{clean(shown)}</pre>
      {!whole && <p><button class="small" onClick={load}>Show all ({bytes(line.bytes)})</button></p>}
    </aside>
  );
}

/** Finds the line that an item came from: the first that has an event of it. Items of later lines are nearer to the end, so the search goes backwards. */
async function find(id: string, item: string, last: number): Promise<{ epoch: number; stream: string; offset: number; from: number } | undefined> {
  const own = /^i(\d+)\./.exec(item);
  let pages = 0;
  for (let epoch = own ? Number(own[1]) : last; epoch >= 1; epoch--) {
    let before = -1;
    let found: { epoch: number; stream: string; offset: number; from: number } | undefined;
    while (pages++ < LOOK) {
      const r = await control.call<DialogueLinesResult>('dialogue.lines', { dialogue_id: id, epoch, stream: 'both', before_offset: before, limit: 1000, cut_bytes: 1 });
      const first = r.lines.findIndex((l) => l.events.some((e) => e.item_id === item));
      const out = r.lines.filter((l) => l.stream === 'stdout');
      if (first >= 0) {
        const l = r.lines[first]!;
        const back = r.lines.slice(Math.max(0, first - 20), first + 1).find((x) => x.stream === 'stdout') ?? r.lines.slice(first).find((x) => x.stream === 'stdout');
        found = { epoch, stream: l.stream, offset: l.offset, from: back?.offset ?? 0 };
        if (first > 0) break; // else it may have begun on the page before
      } else if (found) break;
      const begin = out[0]?.offset ?? 0;
      if (begin === 0) break;
      before = begin;
    }
    if (found) return found;
    if (own) return undefined;
  }
  return undefined;
}
