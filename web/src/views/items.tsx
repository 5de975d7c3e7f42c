// The items of a transcript: messages, thoughts, plans, tool calls and what is below them.
import { computed, signal } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { DialogueAnswerer, DialogueItem, DialoguePart, DialogueRequest, DialogueTurn } from '../../../sdk/typescript/src/types.js';
import { dialogues } from '../net/dialogues.js';
import { shared } from '../net/login.js';
import { control, mayWrite } from '../net/sessions.js';
import type { Transcript } from '../net/transcript.js';
import { Ansi } from '../ui/ansi.js';
import { compare, count, Diff } from '../ui/diff.js';
import { Code, Link, Markdown } from '../ui/markdown.js';
import { attempt, bytes, compose, duration, lines, plain } from '../ui/parts.js';
import { href } from '../ui/route.js';

/** Which items a person has unfolded or folded, by dialogue and item. Rows that leave the view keep it. */
const folds = signal<ReadonlyMap<string, boolean>>(new Map());
export function fold(t: Transcript, id: string, open: boolean): void { folds.value = new Map(folds.value).set(t.id + id, open); }

/** Unfolds all tool calls that are loaded, or folds them all. */
export function foldAll(t: Transcript, open: boolean): void {
  const next = new Map(folds.value);
  const walk = (ids: readonly string[]) => {
    for (const id of ids) {
      next.set(t.id + id, open);
      walk(t.below(id).peek().ids);
    }
  };
  walk(t.rows.peek());
  folds.value = next;
}

function useFold(t: Transcript, id: string, standard: boolean): [boolean, () => void] {
  const open = useMemo(() => computed(() => folds.value.get(t.id + id)), [t, id]).value ?? standard;
  return [open, () => fold(t, id, !open)];
}

export function textOf(parts: DialoguePart[] | undefined): string {
  return (parts ?? []).filter((p) => p.type === 'text').map((p) => p.text ?? '').join('');
}

type Bag = Record<string, unknown>;
const bag = (v: unknown): Bag => (typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Bag) : {});
const str = (v: unknown): string => (typeof v === 'string' ? v : '');

/** One row of the transcript, also below a tool call. */
export function Item({ t, id }: { t: Transcript; id: string }) {
  const s = useMemo(() => (t.has(id) ? t.item(id) : null), [t, id]);
  if (!s) return null;
  const item = s.value;
  return (
    <div class={'item ' + item.kind + (item.error ? ' failed' : '')} data-item={id}>
      {item.kind === 'user' && <User t={t} item={item} />}
      {item.kind === 'agent' && <Agent t={t} item={item} />}
      {item.kind === 'reasoning' && <Thought t={t} item={item} />}
      {item.kind === 'plan' && <div class="plan"><div class="label">Plan</div><Markdown text={textOf(item.parts)} /></div>}
      {item.kind === 'tool_call' && item.tool && <Tool t={t} item={item} />}
      {item.error && <p class="bad wrap">{lines(item.error)}</p>}
    </div>
  );
}

function Tools({ t, id }: { t: Transcript; id: string }) {
  if (shared.value) return null; // a share has no raw lines
  return <a class="inspect" href={`${href('d', t.id, 'raw')}?item=${encodeURIComponent(id)}`} aria-label="Show the raw lines of this item" title="Raw lines of this item">{"{}"}</a>;
}

function User({ t, item }: { t: Transcript; item: DialogueItem }) {
  const state = useMemo(() => computed(() => t.messages.value.get(item.item_id)), [t, item.item_id]).value;
  const waits = state === 'sent' || state === 'queued';
  if (item.synthetic) return <p class="aside dim wrap">{lines(textOf(item.parts))}</p>;
  return (
    <div class="bubble">
      <span class="label">You{waits && <span class="badge" data-message={state}>queued</span>}{waits && mayWrite.value && dialogues.value.get(t.id)?.capabilities.includes('unsend') && (
        <button class="small" onClick={() => void attempt(() => control.call('dialogue.unsend', { dialogue_id: t.id, message_id: item.item_id }))}>Take back</button>)}{(state === 'cancelled' || state === 'lost') && <span class="badge">{state}</span>}</span>
      <div class="wrap">{lines(textOf(item.parts))}</div>
      <Others parts={item.parts} />
    </div>
  );
}

function Agent({ t, item }: { t: Transcript; item: DialogueItem }) {
  const text = textOf(item.parts);
  return (
    <div class="said">
      <Markdown text={text} />
      {item.status === 'streaming' && <span class="caret" aria-hidden="true" />}
      {item.status === 'aborted' && <p class="dim">(interrupted)</p>}
      {item.status === 'lost' && <p class="dim">(the agent ended here)</p>}
      <Others parts={item.parts} />
      <Cut t={t} item={item} />
      <Tools t={t} id={item.item_id} />
    </div>
  );
}

function Thought({ t, item }: { t: Transcript; item: DialogueItem }) {
  const [open, toggle] = useFold(t, item.item_id, false);
  const text = textOf(item.parts);
  if (!text && item.status !== 'streaming') return null;
  const last = text.trimEnd().split('\n').pop() ?? '';
  return (
    <div class="thought">
      <button class="fold" aria-expanded={open} onClick={toggle}><span class="tri" aria-hidden="true">{open ? '▾' : '▸'}</span><span class="tool-name">{item.status === 'streaming' ? 'Thinking' : 'Thought'}</span>{!open && <span class="clip dim grow">{plain(last)}</span>}</button>
      {open && <div class="fold-body"><Markdown text={text} /><Cut t={t} item={item} /></div>}
    </div>
  );
}

function cutOf(item: DialogueItem): number {
  let n = 0;
  for (const p of [...(item.parts ?? []), ...(item.tool?.output ?? [])]) n = Math.max(n, p.cut ?? 0);
  for (const v of Object.values(item.tool?.cut ?? {})) n = Math.max(n, v);
  return n;
}

function Cut({ t, item }: { t: Transcript; item: DialogueItem }) {
  const n = cutOf(item);
  return n ? <p><button class="small" onClick={() => void attempt(() => t.whole(item.item_id))}>Show all ({bytes(n)})</button></p> : null;
}

/** Parts that are not text: pictures, files, data. */
function Others({ parts }: { parts: DialoguePart[] | undefined }) {
  const rest = (parts ?? []).filter((p) => p.type !== 'text');
  return rest.length ? <>{rest.map((p, i) => <Part key={i} part={p} />)}</> : null;
}

function Part({ part }: { part: DialoguePart }) {
  switch (part.type) {
    case 'text': return <Output text={part.text ?? ''} />;
    case 'diff': return <><p class="mono dim">{plain(part.path ?? '')}</p><Diff before={part.old ?? ''} after={part.text ?? ''} /></>;
    case 'image': return <Picture part={part} />;
    case 'resource': return <p class="mono">{part.path ? <Link href={part.path}>{plain(part.path)}</Link> : part.media_type}{part.text && <Output text={part.text} />}</p>;
    default: return <Code text={JSON.stringify(part.data ?? part, null, 2)} lang="json" />;
  }
}

const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

function Picture({ part }: { part: DialoguePart }) {
  const [url, setUrl] = useState('');
  const data = part.data_base64 ?? '';
  const type = part.media_type ?? '';
  useEffect(() => {
    if (!data || !pictures.includes(type)) return;
    let u = '';
    try {
      u = URL.createObjectURL(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], { type }));
    } catch {
      return;
    }
    setUrl(u);
    return () => URL.revokeObjectURL(u);
  }, [data, type]);
  return url ? <img class="picture" src={url} alt="Picture in the conversation" /> : <p class="dim">[picture{type ? `, ${plain(type)}` : ''}]</p>;
}

const SHOWN = 400;

/** Output of a tool, with its colours. */
function Output({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const list = useMemo(() => text.replace(/\n$/, '').split('\n'), [text]);
  const shown = all ? list.slice(0, 20_000) : list.slice(0, SHOWN);
  if (!text) return null;
  return (
    <div class="out">
      <pre tabIndex={0} aria-label="Output">{shown.map((l, i) => <div key={i}><Ansi text={l.replaceAll('\t', '        ')} />{'\n'}</div>)}</pre>
      {list.length > shown.length && <button class="small" onClick={() => setAll(true)}>{list.length - shown.length} more lines</button>}
    </div>
  );
}

const marks: Record<string, [string, string]> = {
  pending: ['◌', 'pending'], awaiting_approval: ['◆', 'asks'], running: ['●', 'running'], completed: ['✓', 'done'], failed: ['✗', 'failed'], cancelled: ['⊘', 'cancelled'], lost: ['○', 'lost'],
};

function edits(item: DialogueItem): { path: string; before: string; after: string }[] {
  const tool = item.tool!;
  const input = bag(tool.effective_input ?? tool.input);
  const path = str(input['file_path']) || str(input['path']) || (tool.subject ?? '');
  const diffs = (tool.output ?? []).filter((p) => p.type === 'diff').map((p) => ({ path: p.path ?? path, before: p.old ?? '', after: p.text ?? '' }));
  if (diffs.length) return diffs;
  if (Array.isArray(input['edits'])) return (input['edits'] as unknown[]).map((e) => ({ path, before: str(bag(e)['old_string']), after: str(bag(e)['new_string']) }));
  if (typeof input['old_string'] === 'string' || typeof input['new_string'] === 'string') return [{ path, before: str(input['old_string']), after: str(input['new_string']) }];
  if (tool.kind === 'edit' && typeof input['content'] === 'string') return [{ path, before: '', after: str(input['content']) }];
  return [];
}

interface Todo { content: string; status: string }
function todosOf(input: unknown): Todo[] {
  const list = bag(input)['todos'];
  return Array.isArray(list) ? list.map((x) => ({ content: str(bag(x)['content']) || str(bag(x)['activeForm']), status: str(bag(x)['status']) })).filter((x) => x.content) : [];
}

/** A short line about a call: what it works on. */
function about(item: DialogueItem): string {
  const tool = item.tool!;
  if (tool.subject) return tool.subject;
  if (tool.title) return tool.title;
  if (typeof tool.input === 'string') return tool.input;
  return Object.values(bag(tool.input)).filter((v) => typeof v === 'string').join(' ');
}

/** What an item did last, in one line, for a subagent that is folded. */
function lastLine(t: Transcript, id: string): string {
  const ids = t.below(id).value.ids;
  const last = ids[ids.length - 1];
  if (!last || !t.has(last)) return '';
  const i = t.item(last).value;
  if (i.tool) return (i.tool.kind === 'agent' && lastLine(t, last)) || `${i.tool.name} ${about(i)}`;
  return textOf(i.parts).trimEnd().split('\n').pop() ?? '';
}

function Tool({ t, item }: { t: Transcript; item: DialogueItem }) {
  const tool = item.tool!;
  const id = item.item_id;
  const changes = edits(item);
  const diffs = useMemo(() => changes.map((c) => count(compare(c.before, c.after))), [item]);
  const size = diffs.reduce((n, d) => n + d.added + d.removed, 0);
  const todos = todosOf(tool.input);
  const [open, toggle] = useFold(t, id, todos.length > 0 || (size > 0 && size <= 30));
  const below = t.below(id).value;
  const task = useMemo(() => computed(() => t.tasks.value.get(id)), [t, id]).value;
  const asked = useMemo(() => computed(() => [...t.requests.value.values()].filter((r) => r.tool_call_id === id)), [t, id]).value;
  const nested = tool.kind === 'agent' || below.ids.length > 0 || (tool.items_count ?? 0) > 0;
  useEffect(() => { if (open && nested) void t.unfold(id); }, [open, nested, below.loaded]);
  const mayTalk = mayWrite.value && (dialogues.value.get(t.id)?.state ?? 'ended') !== 'ended';
  const live = tool.status === 'running' || tool.status === 'pending' || task?.status === 'running';
  const state = task && task.status === 'running' && tool.status === 'completed' ? 'running' : tool.status;
  const [mark, word] = marks[state] ?? ['•', state];
  const out = textOf(tool.output);
  const outLines = out ? out.replace(/\n$/, '').split('\n').length : 0;
  const steps = below.loaded ? below.ids.length : (tool.items_count ?? 0);
  const facts: string[] = [];
  if (tool.exit_code !== undefined) facts.push(`exit ${tool.exit_code}`);
  if (size) facts.push(`+${diffs.reduce((n, d) => n + d.added, 0)} −${diffs.reduce((n, d) => n + d.removed, 0)}`);
  if (nested && steps) facts.push(`${steps} ${steps === 1 ? 'step' : 'steps'}`);
  else if (outLines && !size) facts.push(`${outLines} ${outLines === 1 ? 'line' : 'lines'}`);
  if (task?.background) facts.push('in the background');
  const doing = nested && !open ? (live ? lastLine(t, id) || task?.summary || '' : task?.summary || '') : '';
  return (
    <div class={`tool k-${tool.kind} st-${state}`}>
      <div class="tool-head">
        <button class="fold grow" aria-expanded={open} onClick={toggle}>
          <span class="tri" aria-hidden="true">{open ? '▾' : '▸'}</span>
          <span class="tool-name">{plain(tool.name)}</span>
          <span class={'clip grow ' + (tool.kind === 'agent' ? '' : 'mono')}>{plain(about(item))}</span>
          <span class="facts-line dim">{facts.join(' · ')}</span>
          <span class={'mark m-' + state}><span aria-hidden="true">{mark}</span> <span class={state === 'completed' ? 'quiet' : ''}>{word}</span></span>
        </button>
        <Tools t={t} id={id} />
      </div>
      {doing && <div class="doing dim clip" data-live={live}><span aria-hidden="true">└ </span>{plain(doing)}</div>}
      {open && (
        <div class="fold-body">
          {asked.filter((r) => r.how).map((r) => <p key={r.request_id} class="dim decided">{decided(r)}</p>)}
          {todos.length > 0 ? <ul class="todos">{todos.map((x, i) => <li key={i} class={'todo ' + x.status}><span aria-hidden="true">{x.status === 'completed' ? '☑' : x.status === 'in_progress' ? '◧' : '☐'}</span> {plain(x.content)}{x.status === 'in_progress' && <span class="dim"> (in progress)</span>}</li>)}</ul>
            : changes.length > 0 ? changes.map((c, i) => <div key={i}>{changes.length > 1 && <p class="mono dim">{plain(c.path)}</p>}<Diff before={c.before} after={c.after} numbers={tool.name === 'Write'} path={c.path} quote={mayTalk ? quote : undefined} /></div>)
              : <Input item={item} />}
          {tool.effective_input !== undefined && <><div class="label">Changed by the answer to</div><Code text={JSON.stringify(tool.effective_input, null, 2)} lang="json" /></>}
          {nested && <Nested t={t} id={id} />}
          {(tool.output ?? []).filter((p) => p.type !== 'diff').length > 0 && todos.length === 0 && <><div class="label">Result</div>{(tool.output ?? []).filter((p) => p.type !== 'diff').map((p, i) => tool.kind === 'agent' && p.type === 'text' ? <Markdown key={i} text={p.text ?? ''} /> : <Part key={i} part={p} />)}</>}
          <Cut t={t} item={item} />
        </div>
      )}
    </div>
  );
}

function quote(text: string): void {
  compose(text);
  document.getElementById('composer')?.focus();
}

function Input({ item }: { item: DialogueItem }) {
  const input = item.tool!.input;
  if (input === undefined) return null;
  if (typeof input === 'string') return <pre class="in">{lines(input)}</pre>;
  const b = bag(input);
  if (typeof b['command'] === 'string') return <pre class="in" tabIndex={0} aria-label="Command"><span class="dim" aria-hidden="true">$ </span>{lines(b['command'])}</pre>;
  if (item.tool!.kind === 'agent' && typeof b['prompt'] === 'string') return <div class="prompt dim"><Markdown text={b['prompt']} /></div>;
  const entries = Object.entries(b);
  if (entries.length === 0) return null;
  return <dl class="facts input">{entries.map(([k, v]) => <><dt key={k}>{plain(k)}</dt><dd key={k + '='} class="wrap">{typeof v === 'string' ? lines(v) : JSON.stringify(v, null, 1)}</dd></>)}</dl>;
}

function Nested({ t, id }: { t: Transcript; id: string }) {
  const below = t.below(id).value;
  return (
    <div class="nested" role="group" aria-label="Steps of the subagent">
      {!below.loaded && <p class="dim">Loading…</p>}
      {below.hasBefore && <p><button class="small" onClick={() => void t.unfold(id, { before: true })}>Earlier steps</button></p>}
      {below.ids.map((c) => <Item key={c} t={t} id={c} />)}
    </div>
  );
}

const transports: Record<string, string> = { socket: 'a program on this machine', http: 'a program over HTTP', websocket: 'a browser', grpc: 'a program over gRPC', mcp: 'an MCP client', stdio: 'a program over stdio' };

/** The client that answered, in its own words where it has said them. */
function who(by: DialogueAnswerer): string { return plain(by.label || transports[by.transport] || by.transport); }

export function decided(r: DialogueRequest): string {
  const by = r.by === 'policy' ? ' by the policy' : r.by === 'agent' ? ' by the agent' : r.answered_by ? ` by ${who(r.answered_by)}` : '';
  if (r.how === 'answered') return r.decision === 'deny' ? `Denied${by}` : r.decision === 'allow' ? `Allowed${by}` : `Answered${by}`;
  if (r.how === 'withdrawn') return 'The agent withdrew its request';
  return r.how === 'expired' ? 'Denied: no client followed the dialogue' : 'The agent ended before an answer';
}

const outcomes: Record<string, string> = { completed: 'Turn completed', failed: 'Turn failed', interrupted: 'Turn interrupted', limit: 'Turn reached a limit', lost: 'Turn lost: the agent ended' };

/** The line below a turn. */
export function Turn({ turn }: { turn: DialogueTurn }) {
  const facts = [outcomes[turn.outcome ?? ''] ?? String(turn.outcome)];
  if (turn.duration_ms) facts.push(duration(turn.duration_ms));
  if (turn.steps && turn.steps > 1) facts.push(`${turn.steps} steps`);
  const u = turn.usage;
  if (u?.cost_usd) facts.push(`$${u.cost_usd.toFixed(u.cost_usd < 0.1 ? 4 : 2)}`);
  if (u && u.input_tokens + u.output_tokens > 0) facts.push(`${tokens(u.input_tokens + u.output_tokens)} tokens`);
  if (turn.denials?.length) facts.push(`${turn.denials.length} denied`);
  const bad = turn.outcome === 'failed' || turn.outcome === 'limit' || turn.outcome === 'lost';
  return <div class={'turn-line' + (bad ? ' bad' : ' dim')}><span>{facts.join(' · ')}</span>{bad && turn.text && <span class="wrap"> {lines(turn.text)}</span>}</div>;
}

export function tokens(n: number): string { return n < 1000 ? String(n) : n < 1_000_000 ? `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`; }

