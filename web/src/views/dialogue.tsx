// One dialogue: its transcript, what it asks, and the line to talk to it.
import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { DialogueContent, DialogueInfo, DialogueSearchResult, SystemInfoResult } from '../../../sdk/typescript/src/types.js';
import { ask, dialogues, dialoguesLoaded, learnDialogue, nameOf } from '../net/dialogues.js';
import { shared } from '../net/login.js';
import { control, epoch, mayWrite } from '../net/sessions.js';
import { Transcript } from '../net/transcript.js';
import { Feed, type FeedHandle } from '../ui/feed.js';
import { askFirst, attempt, compose, Empty, lines, Modal, now, plain, StateMark, toast } from '../ui/parts.js';
import { href, route } from '../ui/route.js';
import { costOf, endAgent, forget, fullness, rulesOf, rulesText } from './dialogues.js';
import { decided, fold, foldAll, Item, tokens, Turn } from './items.js';
import { answered, refocus, RequestCard } from './requests.js';
import { sharing } from './share.js';

/** Messages that the daemon has not confirmed yet. They are sent again after a reconnect, with the same id. */
interface Unsent { id: string; dialogue: string; text: string; content: DialogueContent[] | undefined }
const outbox = signal<readonly Unsent[]>([]);

function uuid(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6]! & 15) | 64;
  b[8] = (b[8]! & 63) | 128;
  const hex = [...b].map((x) => x.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

async function post(m: Unsent, restore: (text: string) => void): Promise<void> {
  try {
    await control.call('dialogue.send', { dialogue_id: m.dialogue, message_id: m.id, ...(m.content ? { content: m.content } : { text: m.text }) });
    outbox.value = outbox.value.filter((x) => x.id !== m.id);
  } catch (e) {
    if ((e as { lost?: boolean }).lost) return; // the page sends it again when it is connected
    outbox.value = outbox.value.filter((x) => x.id !== m.id);
    restore(m.text);
    toast((e as Error).message, { bad: true });
  }
}

const act = (method: string, params: object) => attempt(async () => learnDialogue(await control.call<DialogueInfo>(method, params)));
const resuming = signal<DialogueInfo | null>(null);
const policing = signal<DialogueInfo | null>(null);
const spoken = signal('');

export function DialoguePage({ id, item }: { id: string; item: string | undefined }) {
  const d = dialogues.value.get(id);
  const [missing, setMissing] = useState('');
  useEffect(() => {
    setMissing('');
    if (d || !dialoguesLoaded.value) return;
    control.call<DialogueInfo>('dialogue.info', { dialogue_id: id }).then((i) => { learnDialogue(i); if (i.dialogue_id !== id) location.replace(href('d', i.dialogue_id)); }, (e) => { if (!e.lost) setMissing(e.message); });
  }, [id, dialoguesLoaded.value, epoch.value, d === undefined]);
  if (!d) return missing ? <Empty><h2>There is no such dialogue</h2><p class="wrap">{missing}</p><p><a href="#/d">All dialogues</a></p></Empty> : <Empty><p>Loading…</p></Empty>;
  return <Talk key={id} d={d} item={item} />;
}

function Talk({ d, item }: { d: DialogueInfo; item: string | undefined }) {
  const id = d.dialogue_id;
  const t = useMemo(() => new Transcript(id), [id]);
  const feed = useRef<FeedHandle | null>(null);
  const [stuck, setStuck] = useState(true);
  const [seen, setSeen] = useState(0);
  const [finding, setFinding] = useState(false);
  const ended = d.state === 'ended';

  useEffect(() => {
    t.closed = (r) => { if (!answered.has(id + r.request_id)) toast(decided(r) + (r.how === 'answered' && r.by === 'client' && !r.answered_by ? ' by another client' : '') + `: ${plain(r.tool ?? r.kind)}`); };
    t.ended = () => (spoken.value = 'The turn has ended.');
    const look = () => void t.follow(0).catch(() => undefined); // as a reader, or as a hidden page
    document.addEventListener('visibilitychange', look);
    return () => { document.removeEventListener('visibilitychange', look); t.close(); };
  }, [t]);
  // The stream ends with the agent's process and with the connection.
  useEffect(() => {
    void (async () => {
      await t.begin();
      await t.follow(d.seq).catch(() => undefined);
    })();
  }, [t, epoch.value, d.epoch, ended]);

  const shown = t.loaded.value;
  useEffect(() => {
    if (!shown || !item) return;
    void t.locate(item).then((path) => {
      for (const scope of path) fold(t, scope, true);
      feed.current?.show('i:' + (path[0] ?? item));
      requestAnimationFrame(() => requestAnimationFrame(() => {
        const el = document.querySelector<HTMLElement>(`[data-item="${CSS.escape(item)}"]`);
        if (path.length) el?.scrollIntoView({ block: 'center' });
        el?.classList.add('found');
        el?.closest<HTMLElement>('[data-key]')?.focus({ preventScroll: true });
      }));
    }, () => toast('This item is not in the transcript.', { bad: true }));
  }, [shown, item]);

  const unsent = outbox.value.filter((m) => m.dialogue === id && !t.rows.value.includes(m.id));
  const draftName = 'trl.draft.' + id;
  const restore = (text: string) => {
    const box = document.getElementById('composer') as HTMLTextAreaElement | null;
    if (box && !box.value) compose(text);
  };
  useEffect(() => { for (const m of outbox.peek()) if (m.dialogue === id) void post(m, restore); }, [epoch.value]);

  // The rows: items, a line below each turn that has ended, notices where they came.
  const rows = t.rows.value;
  const turns = t.turns.value;
  const notices = t.notices.value;
  const keys: string[] = [];
  for (const [i, r] of rows.entries()) {
    keys.push('i:' + r);
    for (const n of notices) if (n.after === r) keys.push('n:' + n.key);
    if (!t.has(r)) continue;
    const mine = t.item(r).peek().turn_id;
    const next = rows[i + 1];
    const after = next && t.has(next) ? t.item(next).peek().turn_id : undefined;
    if (mine && turns.get(mine)?.outcome && (next ? after !== mine : !t.hasAfter.value)) keys.push('t:' + mine);
  }
  for (const m of unsent) keys.push('o:' + m.id);
  if (ended && !t.hasAfter.value) keys.push('end');
  const row = (key: string) => {
    const name = key.slice(2);
    if (key === 'end') return <End id={id} />;
    switch (key[0]) {
      case 'i': return <Item t={t} id={name} />;
      case 't': return <TurnRow t={t} id={name} />;
      case 'n': {
        const n = t.notices.peek().find((x) => x.key === name)?.notice;
        return n ? <div class={'aside notice ' + n.level}><span aria-hidden="true">{n.level === 'info' ? 'ⓘ' : '⚠'}</span> {lines(n.text)}</div> : null;
      }
      default: return <div class="item user"><div class="bubble"><span class="label">You<span class="badge">not sent yet</span></span><div class="wrap">{lines(outbox.peek().find((m) => m.id === name)?.text ?? '')}</div></div></div>;
    }
  };
  const open = [...t.requests.value.values()].filter((r) => !r.how);
  const total = t.total.value + t.unseen.value;
  useEffect(() => { if (stuck) setSeen(total); }, [stuck, total]);
  useEffect(() => { if (open.length) spoken.value = `The agent asks: ${open[0]!.tool ?? open[0]!.kind}`; }, [open.length]);
  const fresh = Math.max(0, total - seen);
  const toEnd = () => {
    if (t.hasAfter.peek()) void t.open().then(() => feed.current?.end());
    else feed.current?.end();
  };

  const keysHere = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.altKey || e.metaKey || (e.target as Element).closest('input, textarea, select, .ask')) return;
    const at = (document.activeElement?.closest('[data-item]') ?? document.activeElement?.querySelector('[data-item]'))?.getAttribute('data-item') ?? '';
    const run: Record<string, () => void> = {
      j: () => feed.current?.step(1), k: () => feed.current?.step(-1), End: toEnd, f: toEnd, U: () => foldAll(t, true),
      u: () => document.activeElement?.querySelector<HTMLElement>('.fold')?.click(), o: () => document.activeElement?.querySelector<HTMLElement>('.fold')?.click(),
      i: () => (location.hash = href('d', id, 'raw') + (at ? `?item=${encodeURIComponent(at)}` : '')), m: () => document.getElementById('composer')?.focus(),
    };
    if (!run[e.key]) return;
    e.preventDefault();
    run[e.key]!();
  };

  if (t.error.value) return <Empty><h2>The transcript cannot be read</h2><p class="wrap">{t.error.value}</p><p><button onClick={() => void t.open().then(() => t.follow(0))}>Try again</button></p></Empty>;
  return (
    <section class="page talk" aria-label={`Dialogue ${plain(nameOf(d))}`} onKeyDown={keysHere}>
      <Head d={d} find={() => setFinding(!finding)} unfold={(o) => foldAll(t, o)} />
      <Trouble d={d} />
      {finding && <Find id={id} close={() => setFinding(false)} />}
      <div class="feed-wrap">
        {!shown ? <Empty><p>Loading…</p></Empty> : keys.length === 0 ? <Empty><h2>{ended ? 'Nothing was said' : 'Say something'}</h2><p class="dim">{plain(d.agent)} {plain(d.version)} in <code>{plain(d.working_dir)}</code></p></Empty> : (
          <Feed keys={keys} row={row} label="Transcript" live={!t.hasAfter.value} handle={(h) => (feed.current = h)} stuck={setStuck} busy={d.state === 'running'}
            top={() => void t.earlier()} bottom={() => void t.later()}
            header={t.hasBefore.value ? <p class="earlier dim" role="status">{Math.max(0, t.total.value - rows.length)} more items load as you scroll</p> : undefined} />
        )}
        {(!stuck || t.hasAfter.value) && shown && <button class="to-end" onClick={toEnd}>{fresh > 0 ? `${fresh} new ↓` : '↓ Newest'}</button>}
      </div>
      <Live t={t} d={d} />
      <Dock id={id} open={open} />
      {mayWrite.value && !ended && <Composer d={d} draftName={draftName} send={(text, content) => {
        const m: Unsent = { id: uuid(), dialogue: id, text, content };
        outbox.value = [...outbox.value, m];
        toEnd();
        void post(m, restore);
      }} />}
      <div class="hidden" role="status" aria-live="polite">{spoken.value}</div>
      {resuming.value && <Resume d={resuming.value} />}
      {policing.value && <Policy d={policing.value} />}
    </section>
  );
}

function TurnRow({ t, id }: { t: Transcript; id: string }) {
  const turn = t.turns.value.get(id);
  return turn?.outcome ? <Turn turn={turn} /> : null;
}

function End({ id }: { id: string }) {
  const d = dialogues.value.get(id);
  const e = d?.ended;
  if (!d || d.state !== 'ended') return null;
  const bad = e?.cause === 'unexpected_exit' || e?.cause === 'start_failed';
  const how = e?.cause === 'closed' ? '' : e?.signal ? `signal ${e.signal}` : e?.exit_code !== undefined ? `exit status ${e.exit_code}` : '';
  const words: Record<string, string> = { closed: 'The agent was ended', exited: 'The agent has ended on its own', unexpected_exit: 'The agent ended unexpectedly', session_destroyed: "The agent's session was ended", start_failed: 'The agent did not start' };
  return (
    <div class={'end-card' + (bad ? ' bad-card' : '')}>
      <strong>{words[e?.cause ?? ''] ?? 'The agent has ended'}{how && `: ${how}`}</strong>
      {e?.text && e.cause !== 'closed' && <p class="wrap">{lines(e.text)}</p>}
      {e?.stderr_tail && <pre tabIndex={0} aria-label="The end of its stderr">{lines(e.stderr_tail)}</pre>}
      {mayWrite.value && <p class="group"><button class="primary" onClick={() => (resuming.value = d)}>Resume</button><button class="danger" onClick={() => forget(d)}>Delete the record</button></p>}
    </div>
  );
}

/** The line that says what happens now. */
function Live({ t, d }: { t: Transcript; d: DialogueInfo }) {
  const r = t.retry.value;
  if (r) return <div class="live warn" role="status">The agent is calling its model again: attempt {r.attempt}{r.most ? ` of ${r.most}` : ''}{r.cause ? ` (${plain(r.cause)})` : ''}</div>;
  if (d.stalled_at && d.state === 'running') return <div class="live warn" role="status">The agent has been silent<span aria-hidden="true"> for {since(d.stalled_at)}</span>. It may still be working.</div>;
  if (d.state === 'running') return <div class="live dim"><span class="dots" aria-hidden="true"><i /><i /><i /></span> The agent is working</div>;
  if (d.state === 'starting') return <div class="live dim">The agent is starting…</div>;
  if (d.state === 'idle' && d.background_tasks > 0) return <div class="live dim">{d.background_tasks} {d.background_tasks === 1 ? 'task is' : 'tasks are'} running in the background</div>;
  return null;
}

function since(at: string): string {
  const s = Math.max(0, Math.round((now.value - Date.parse(at)) / 1000));
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
}

function Head({ d, find, unfold }: { d: DialogueInfo; find(): void; unfold(open: boolean): void }) {
  const id = d.dialogue_id;
  const may = mayWrite.value && d.state !== 'ended';
  const full = fullness(d);
  const can = (c: string) => may && d.capabilities.includes(c);
  const choose = (name: 'model' | 'permission_mode', label: string, list: string[] | undefined) => {
    const value = d[name];
    const all = [...new Set([...(value ? [value] : []), ...(list ?? [])])];
    if (all.length === 0) return null;
    if (!can(name === 'model' ? 'set_model' : 'set_mode') || (list ?? []).length === 0) return <span class="chip wide-only">{plain(value)}</span>;
    return <label class="chip-select"><span class="hidden">{label}</span><select value={value} onChange={(e) => void act('dialogue.set', { dialogue_id: id, [name]: e.currentTarget.value })}>{!value && <option value="">{label}</option>}{all.map((m) => <option key={m} value={m}>{plain(m)}</option>)}</select></label>;
  };
  const used = d.usage.input_tokens + d.usage.output_tokens;
  return (
    <div class="bar head">
      {!shared.value && <a class="back" href="#/d" aria-label="Back to all dialogues">←</a>}
      <h1 class="clip" title={plain(nameOf(d))}>{plain(nameOf(d))}</h1>
      <StateMark state={d.state} />
      <span class="chip wide-only">{plain(d.agent)} {plain(d.version)}</span>
      {d.remote && <span class="chip wide-only">{plain(d.remote)}</span>}
      {choose('model', 'Model', d.models)}
      {choose('permission_mode', 'Mode', d.modes)}
      <span class="grow" />
      {full !== undefined && <span class="meter" title={`${d.context!.used} of ${d.context!.window} tokens`}><meter min={0} max={100} high={80} value={full} aria-label="Context used" /> <span class="dim">{full} %</span></span>}
      {(costOf(d) || used > 0) && <span class="dim cost wide-only">{[costOf(d), used > 0 ? `${tokens(used)} tokens` : ''].filter(Boolean).join(' · ')}</span>}
      {may && (d.state === 'running' || d.state === 'requires_action') && <button class="small danger" onClick={() => void act('dialogue.interrupt', { dialogue_id: id })}>Interrupt</button>}
      <Menu items={[
        ['Find in this dialogue', find], ['Unfold everything', () => unfold(true)], ['Fold everything', () => unfold(false)],
        ...(!shared.value ? [['Stream Inspector', () => (location.hash = href('d', id, 'raw'))] as [string, () => void]] : []),
        ...(d.session_id && !shared.value ? [['Its session', () => (location.hash = href('s', d.session_id, 'info'))] as [string, () => void]] : []),
        ...(mayWrite.value ? [['Share…', () => (sharing.value = { name: nameOf(d), what: { dialogue_id: id } })] as [string, () => void]] : []),
        ...(may ? [['Rules…', () => (policing.value = d)], ['End the agent…', () => endAgent(d)]] as [string, () => void][] : []),
        ...(mayWrite.value && !may ? [['Resume…', () => (resuming.value = d)], ['Delete the record…', () => forget(d)]] as [string, () => void][] : []),
      ]} />
    </div>
  );
}

function Menu({ items }: { items: [string, () => void][] }) {
  const [open, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    ref.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    const away = (e: Event) => { if (!ref.current?.contains(e.target as Node)) setOpen(false); };
    addEventListener('pointerdown', away);
    return () => removeEventListener('pointerdown', away);
  }, [open]);
  const keys = (e: KeyboardEvent) => {
    const list = [...(ref.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const at = list.indexOf(document.activeElement as HTMLElement);
    if (e.key === 'ArrowDown') list[(at + 1) % list.length]?.focus();
    else if (e.key === 'ArrowUp') list[(at - 1 + list.length) % list.length]?.focus();
    else if (e.key === 'Escape') { setOpen(false); ref.current?.querySelector('button')?.focus(); }
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="menu" ref={ref} onKeyDown={open ? keys : undefined}>
      <button class="small" aria-haspopup="menu" aria-expanded={open} aria-label="More" onClick={() => setOpen(!open)}>⋯</button>
      {open && <div role="menu" class="menu-list">{items.map(([name, run]) => <button key={name} role="menuitem" tabIndex={-1} onClick={() => { setOpen(false); ref.current?.querySelector('button')?.focus(); run(); }}>{name}</button>)}</div>}
    </div>
  );
}

/** What keeps the dialogue from going on, with the one thing that helps. */
function Trouble({ d }: { d: DialogueInfo }) {
  const id = d.dialogue_id;
  const [limit, setLimit] = useState(0);
  const [said, setSaid] = useState('');
  const [busy, setBusy] = useState(false);
  const [, tick] = useState(0);
  const lost = d.lost_at;
  useEffect(() => {
    if (!lost) return;
    void control.call<SystemInfoResult>('system.info').then((i) => setLimit(Number(i.limits['dialogue_reconnect_s'] ?? 0)), () => undefined);
    const timer = setInterval(() => { now.value = Date.now(); tick((n) => n + 1); }, 1000);
    return () => clearInterval(timer);
  }, [lost]);
  useEffect(() => setSaid(''), [!d.error]);
  const retry = async () => {
    setBusy(true);
    setSaid('');
    try {
      const now = await control.call<DialogueInfo>('dialogue.retry', { dialogue_id: id });
      learnDialogue(now);
      if (now.error) setSaid(`TRL tried again at ${new Date().toLocaleTimeString([], { hour12: false })}, without success.`);
    } catch (e) {
      setSaid(`TRL could not try again: ${(e as Error).message}`);
      ask(id);
    } finally {
      setBusy(false);
    }
  };
  const again = mayWrite.value && <button class="small" onClick={() => void retry()} aria-busy={busy}>{busy ? 'Trying…' : 'Retry'}</button>;
  const place = d.remote ?? d.runtime;
  const e = d.error;
  if (e) {
    return (
      <div class="banner warn trouble" role="alert" data-reason={e.reason}>
        {e.reason === 'disk' ? <span>The disk is full: <span class="wrap">{plain(e.message)}</span>. Nothing is lost; the agent waits until there is room.</span>
          : e.reason === 'auth_rejected' ? <span>{plain(place)} rejected the credentials. Put a valid token into the file that the dialogue was started with, then retry. <span class="dim">{plain(e.message)}</span></span>
            : e.reason === 'session_gone' ? <span>The agent's session at {plain(place)} no longer exists. Only a new process can continue the conversation.</span>
              : <span>Cannot reach {plain(place)}: {plain(e.message.replace(`daemon at ${place}: `, ''))}. The agent keeps running.</span>}
        {' '}{e.reason === 'disk' ? null : e.reason === 'session_gone' ? mayWrite.value && <button class="small" onClick={() => (resuming.value = d)}>Resume…</button> : again}
        {said && <span class="wrap"> {plain(said)}</span>}
      </div>
    );
  }
  if (lost) return <div class="banner warn trouble" role="status" data-reason="looking">TRL lost the connection to {plain(place)} and is trying to reconnect<span aria-hidden="true">: {since(lost)}{limit > 0 ? ` of ${Math.floor(limit / 60)}:${String(Math.round(limit % 60)).padStart(2, '0')}` : ''}</span>. The agent keeps running.</div>;
  return null;
}

/** The open requests, always in sight above the composer. */
function Dock({ id, open }: { id: string; open: import('../../../sdk/typescript/src/types.js').DialogueRequest[] }) {
  const ref = useRef<HTMLDivElement>(null);
  const wanted = refocus.value;
  const done = useRef(wanted);
  useLayoutEffect(() => {
    if (done.current === wanted) return;
    // The focus is lost when the answered card goes. A person who has moved on stays where they are.
    const inside = () => ref.current?.contains(document.activeElement) ?? false;
    const at = inside() ? document.activeElement!.closest<HTMLElement>('.ask') : null;
    if (at && answered.has(id + at.dataset['request'])) return;
    done.current = wanted;
    if (!at) setTimeout(() => { if (!document.activeElement || document.activeElement === document.body) (ref.current?.querySelector<HTMLElement>('.ask') ?? document.getElementById('composer'))?.focus(); }, 50);
  }, [wanted, open.map((r) => r.request_id).join()]);
  return <div class="dock" ref={ref} hidden={open.length === 0}>{open.length > 1 && <p class="dim dock-count">{open.length} requests waiting</p>}{open.map((r) => <RequestCard key={r.request_id} dialogue={id} request={r} />)}</div>;
}

interface Picture { name: string; type: string; data: string }

function Composer({ d, draftName, send }: { d: DialogueInfo; draftName: string; send(text: string, content?: DialogueContent[]): void }) {
  const [text, setText] = useState(() => sessionStorage.getItem(draftName) ?? '');
  const [at, setAt] = useState(0);
  const [shut, setShut] = useState(false);
  const [images, setImages] = useState<Picture[]>([]);
  const box = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const b = box.current;
    if (!b) return;
    b.style.height = 'auto';
    b.style.height = Math.min(b.scrollHeight + 2, innerHeight * 0.4) + 'px';
    try {
      if (text) sessionStorage.setItem(draftName, text);
      else sessionStorage.removeItem(draftName);
    } catch { /* without storage a draft lasts as long as the page */ }
  }, [text]);
  const word = /^\/(\S*)$/.exec(text);
  const commands = word && !shut ? (d.commands ?? []).map((c) => (c.startsWith('/') ? c : '/' + c)).filter((c) => c.toLowerCase().startsWith(text.toLowerCase()) && c !== text).slice(0, 8) : [];
  const index = Math.min(at, commands.length - 1);
  const takes = d.capabilities.includes('images');
  const submit = () => {
    if (!text.trim() && images.length === 0) return;
    const content: DialogueContent[] | undefined = images.length ? [...(text.trim() ? [{ type: 'text' as const, text }] : []), ...images.map((i) => ({ type: 'image' as const, data_base64: i.data, media_type: i.type }))] : undefined;
    send(text, content);
    setText('');
    setImages([]);
  };
  const attach = (files: Iterable<File>) => {
    for (const f of files) {
      if (!takes || !/^image\/(png|jpeg|gif|webp)$/.test(f.type)) {
        toast(takes ? `${f.name}: not an image that agents understand` : 'This agent does not accept images.', { bad: true });
        continue;
      }
      void f.arrayBuffer().then((b) => {
        let s = '';
        for (const c of new Uint8Array(b)) s += String.fromCharCode(c);
        setImages((l) => [...l, { name: f.name, type: f.type, data: btoa(s) }]);
      });
    }
  };
  const keys = (e: KeyboardEvent) => {
    if (commands.length && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
      e.preventDefault();
      setAt((index + (e.key === 'ArrowDown' ? 1 : commands.length - 1)) % commands.length);
    } else if (commands.length && (e.key === 'Tab' || (e.key === 'Enter' && !e.shiftKey))) {
      e.preventDefault();
      setText(commands[index]! + (e.key === 'Tab' ? ' ' : ''));
      setAt(0);
    } else if (e.key === 'Escape') {
      if (commands.length) setShut(true);
      else document.querySelector<HTMLElement>('.feed')?.focus();
    } else if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && e.keyCode !== 229) {
      e.preventDefault();
      submit();
    }
  };
  return (
    <form class="composer" onSubmit={(e) => { e.preventDefault(); submit(); }} onDragOver={(e) => e.preventDefault()} onDrop={(e) => { e.preventDefault(); attach(e.dataTransfer?.files ?? []); }}>
      {commands.length > 0 && (
        <ul class="choices slash" role="listbox" id="slash" aria-label="Commands of the agent">
          {commands.map((c, i) => <li key={c} id={'slash-' + i} role="option" aria-selected={i === index} onMouseDown={(e) => { e.preventDefault(); setText(c + ' '); }}><code>{plain(c)}</code></li>)}
        </ul>
      )}
      {images.length > 0 && <div class="group attached">{images.map((i, n) => <span key={n} class="tag">{plain(i.name || i.type)} <button type="button" class="icon tiny" aria-label={`Remove ${plain(i.name)}`} onClick={() => setImages(images.filter((_, k) => k !== n))}>×</button></span>)}</div>}
      <div class="composer-row">
        <textarea id="composer" ref={box} rows={1} value={text} aria-label="Message to the agent" placeholder={d.state === 'running' || d.state === 'requires_action' ? 'Message; the agent reads it when it can' : 'Message'}
          role={commands.length ? 'combobox' : undefined} aria-expanded={commands.length ? true : undefined} aria-controls={commands.length ? 'slash' : undefined} aria-activedescendant={commands.length ? 'slash-' + index : undefined}
          onInput={(e) => { setText(e.currentTarget.value); setShut(false); }} onKeyDown={keys} onPaste={(e) => { const files = [...(e.clipboardData?.files ?? [])]; if (files.length) { e.preventDefault(); attach(files); } }} />
        {takes && <label class="attach" title="Add an image"><span aria-hidden="true">+</span><input type="file" class="hidden" accept="image/png,image/jpeg,image/gif,image/webp" multiple aria-label="Add an image" onChange={(e) => { attach(e.currentTarget.files ?? []); e.currentTarget.value = ''; }} /></label>}
        <button type="submit" class="primary" disabled={!text.trim() && images.length === 0}>Send</button>
      </div>
      <div class="composer-foot dim hint">Enter sends · Shift+Enter adds a new line{d.commands?.length ? ' · / lists the commands of the agent' : ''}{d.policy?.rules.length ? ` · ${d.policy.rules.length} ${d.policy.rules.length === 1 ? 'rule' : 'rules'}` : ''}</div>
    </form>
  );
}

function Find({ id, close }: { id: string; close(): void }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState<DialogueSearchResult>();
  const run = async (before?: string) => {
    if (!text.trim()) return;
    const r = await attempt(() => control.call<DialogueSearchResult>('dialogue.search', { dialogue_id: id, text, limit: 50, ...(before ? { before } : {}) }));
    if (r) setFound(before && found ? { ...r, matches: [...found.matches, ...r.matches] } : r);
  };
  return (
    <div class="find" role="search">
      <form class="bar" onSubmit={(e) => { e.preventDefault(); void run(); }}>
        <input class="grow filter" autofocus aria-label="Find in this dialogue" placeholder="Find in the whole dialogue" value={text} onInput={(e) => setText(e.currentTarget.value)} onKeyDown={(e) => { if (e.key === 'Escape') close(); }} />
        <button type="submit" class="small">Find</button><button type="button" class="icon" aria-label="Close the search" onClick={close}>×</button>
      </form>
      {found && <div class="find-list" role="status">{found.matches.length === 0 ? <p class="dim">Nothing found.</p> : <ul class="plain">{found.matches.map((m) => <li key={m.item_id}><a href={href('d', id, 'i', m.item_id)}><span class="badge">{m.kind.replace('_', ' ')}</span> <span>{plain(m.snippet)}</span></a></li>)}</ul>}
        {found.more && <p><button class="small" onClick={() => void run(found.matches[found.matches.length - 1]?.item_id)}>More</button></p>}</div>}
    </div>
  );
}

function Resume({ d }: { d: DialogueInfo }) {
  const [env, setEnv] = useState('');
  const [prompt, setPrompt] = useState('');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const close = () => (resuming.value = null);
  const submit = async () => {
    setBusy(true);
    setError('');
    try {
      const vars = Object.fromEntries(env.split('\n').filter((l) => l.includes('=')).map((l) => [l.slice(0, l.indexOf('=')).trim(), l.slice(l.indexOf('=') + 1)]));
      learnDialogue(await control.call<DialogueInfo>('dialogue.resume', { dialogue_id: d.dialogue_id, ...(Object.keys(vars).length ? { env: vars } : {}), ...(prompt.trim() ? { prompt } : {}) }));
      close();
    } catch (e) {
      setError((e as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal title={`Resume ${plain(nameOf(d))}`} close={close}>
      <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <p class="dim">The agent starts again in {plain(d.working_dir)} and remembers the conversation.</p>
        <label class="field tall"><span>Message</span><textarea rows={2} autofocus value={prompt} placeholder="optional" onInput={(e) => setPrompt(e.currentTarget.value)} /></label>
        <label class="field tall"><span>Variables</span><textarea rows={2} class="mono" value={env} spellcheck={false} autocomplete="off" placeholder={'NAME=value\nTRL does not keep those of the last start'} onInput={(e) => setEnv(e.currentTarget.value)} /></label>
        {error && <p class="bad wrap" role="alert">{error}</p>}
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary" disabled={busy}>{busy ? 'Starting…' : 'Resume'}</button></footer>
      </form>
    </Modal>
  );
}

function Policy({ d }: { d: DialogueInfo }) {
  const [text, setText] = useState(rulesText(d.policy?.rules ?? []));
  const [deny, setDeny] = useState(d.policy?.deny_after_s ? String(d.policy.deny_after_s / 60) : '');
  const [error, setError] = useState('');
  const close = () => (policing.value = null);
  const submit = async () => {
    try {
      const messages = new Map((d.policy?.rules ?? []).map((r) => [rulesText([r]), r.message]));
      const rules = rulesOf(text).map((r) => ({ ...r, ...(messages.get(rulesText([r])) ? { message: messages.get(rulesText([r])) } : {}) }));
      learnDialogue(await control.call<DialogueInfo>('dialogue.set', { dialogue_id: d.dialogue_id, policy: { rules, ...(Number(deny) > 0 ? { deny_after_s: Number(deny) * 60 } : {}) } }));
      close();
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <Modal title="Rules" close={close} wide>
      <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <p class="dim">Rules answer permission requests for you; the first that matches decides. A request that no rule matches waits for you.</p>
        <label class="field tall"><span>Rules</span><textarea rows={8} class="mono" autofocus value={text} spellcheck={false} placeholder={'deny *(*.env)\nask Write(/src/.github/*)\nallow Bash(git status*)'} onInput={(e) => setText(e.currentTarget.value)} /></label>
        <label class="field"><span>Deny after</span><input value={deny} inputMode="decimal" placeholder="minutes without a viewer; leave empty to wait" onInput={(e) => setDeny(e.currentTarget.value)} /></label>
        {error && <p class="bad wrap" role="alert">{error}</p>}
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary">Save</button></footer>
      </form>
    </Modal>
  );
}

/** Asks, then interrupts the turn of the dialogue that is shown; for the key. */
export function interruptHere(): void {
  const { path } = route.value;
  const d = path[0] === 'd' && path[1] ? dialogues.value.get(path[1]) : undefined;
  if (!d || !mayWrite.value || (d.state !== 'running' && d.state !== 'requires_action')) return;
  askFirst({ title: `Interrupt ${nameOf(d)}?`, text: 'The turn ends; the dialogue continues.', yes: 'Interrupt', run: () => void act('dialogue.interrupt', { dialogue_id: d.dialogue_id }) });
}
