// Requests of agents as cards, in a dialogue and in the inbox.
import { signal } from '@preact/signals';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { DialogueInfo, DialogueQuestion, DialogueRequest } from '../../../sdk/typescript/src/types.js';
import { dialogues, dialoguesLoaded, learnDialogue, nameOf, waiting } from '../net/dialogues.js';
import type { TrlError } from '../net/conn.js';
import { control, mayWrite } from '../net/sessions.js';
import { Diff } from '../ui/diff.js';
import { Markdown } from '../ui/markdown.js';
import { ago, Empty, lines, plain, toast } from '../ui/parts.js';
import { coarse, prefer, prefs } from '../ui/prefs.js';
import { href } from '../ui/route.js';
import { decided } from './items.js';

/** The requests that this page has answered, so that it does not report them as answered elsewhere. */
export const answered = new Set<string>();
/** Requests whose answer is under way. */
const sending = signal<ReadonlySet<string>>(new Set());
/** Grows when a card that has the focus is answered; the dock then finds the focus a new place. */
export const refocus = signal(0);

const titles: Record<string, string> = { permission: 'asks for permission', question: 'has a question', plan: 'has a plan', elicitation: 'asks for input', dialog: 'asks' };

type Answer = { decision?: 'allow' | 'deny'; message?: string; interrupt?: boolean; input?: unknown; remember?: boolean; option?: string; answers?: Record<string, string> };

async function respond(dialogue: string, r: DialogueRequest, a: Answer, card: HTMLElement | null): Promise<void> {
  const key = dialogue + r.request_id;
  if (sending.value.has(key)) return;
  const focused = card?.contains(document.activeElement) ?? false;
  sending.value = new Set(sending.value).add(key);
  answered.add(key);
  try {
    learnDialogue(await control.call<DialogueInfo>('dialogue.respond', { dialogue_id: dialogue, request_id: r.request_id, ...a }));
    if (focused) refocus.value++;
  } catch (e) {
    const { code, details } = e as TrlError;
    if (code === 'CONFLICT' && details?.['how']) {
      toast(`${decided({ ...r, ...details } as DialogueRequest)}, before your answer: ${plain(r.tool ?? r.kind)}`);
      if (focused) refocus.value++;
    } else {
      answered.delete(key);
      toast((e as Error).message, { bad: true });
    }
  } finally {
    const next = new Set(sending.value);
    next.delete(key);
    sending.value = next;
  }
}

/** The part of the input that a person most likely wants to change, or all of it as JSON. */
function editable(r: DialogueRequest): { text: string; make(text: string): unknown } {
  const input = r.input as Record<string, unknown> | undefined;
  if (input && typeof input['command'] === 'string') return { text: input['command'], make: (command) => ({ ...input, command }) };
  return { text: JSON.stringify(input ?? {}, null, 2), make: (s) => JSON.parse(s) as unknown };
}

export function RequestCard({ dialogue, request: r, where }: { dialogue: string; request: DialogueRequest; where?: string | undefined }) {
  const card = useRef<HTMLElement>(null);
  const [mode, setMode] = useState<'' | 'deny' | 'always' | 'edit'>('');
  const [reason, setReason] = useState('');
  const edit = editable(r);
  const [text, setText] = useState(edit.text);
  const [wrong, setWrong] = useState('');
  const busy = sending.value.has(dialogue + r.request_id);
  const answer = (a: Answer) => void respond(dialogue, r, a, card.current);
  const always = r.options?.find((o) => o.kind === 'allow_always');
  const may = mayWrite.value;
  const plan = r.kind === 'plan';
  const question = r.kind === 'question';
  const form = r.kind === 'elicitation' ? fieldsOf(r.input) : [];
  const allow = () => {
    if (mode !== 'edit') return answer({ decision: 'allow' });
    try {
      answer({ decision: 'allow', input: edit.make(text) });
    } catch (e) {
      setWrong(`This is not JSON: ${(e as Error).message}`);
    }
  };
  const keys = (e: KeyboardEvent) => {
    if (!may || e.repeat || e.ctrlKey || e.altKey || e.metaKey || !prefs.value.keys) return;
    if (e.key === 'Escape' && mode) {
      e.preventDefault();
      setMode('');
      card.current?.focus();
      return;
    }
    if ((e.target as Element).closest('input, textarea, select') || question || form.length > 0) return;
    const run: Record<string, () => void> = { y: allow, n: () => setMode('deny'), a: () => { if (always) setMode('always'); }, e: () => { if (r.editable) setMode('edit'); } };
    if (!run[e.key]) return;
    e.preventDefault();
    run[e.key]!();
  };
  // At once: the next key is meant for it.
  useLayoutEffect(() => {
    if (mode) card.current?.querySelector<HTMLElement>('.ask-more textarea, .ask-more input, .ask-more .primary')?.focus();
  }, [mode]);
  const input = (r.input ?? {}) as Record<string, unknown>;
  const name = where ?? 'The agent';
  return (
    <section ref={card} class={'ask ask-' + r.kind} data-request={r.request_id} tabIndex={-1} aria-label={`${plain(name)} ${titles[r.kind] ?? 'asks'}`} onKeyDown={keys}>
      <header>
        <span class="ask-mark" aria-hidden="true">◆</span>
        <strong class="clip">{where ? <a href={href('d', dialogue)}>{plain(where)}</a> : 'The agent'} {titles[r.kind] ?? 'asks'}</strong>
        {r.tool && !question && !plan && <span class="tool-name">{plain(r.tool)}</span>}
        <span class="grow" /><span class="dim">{ago(r.opened_at)}</span>
      </header>
      {question ? <Questions r={r} answer={answer} may={may} busy={busy} /> : form.length > 0 ? <Form r={r} fields={form} answer={answer} may={may} busy={busy} /> : (
        <>
          <div class="ask-body">
            {plan && typeof input['plan'] === 'string' ? <Markdown text={input['plan']} />
              : mode === 'edit' ? null
                : typeof input['old_string'] === 'string' ? <><p class="mono">{plain(r.subject ?? '')}</p><Diff before={input['old_string']} after={typeof input['new_string'] === 'string' ? input['new_string'] : ''} numbers={false} /></>
                  : r.subject ? <pre class="in" tabIndex={0} aria-label="What it wants to use">{lines(r.subject)}</pre>
                    : r.input !== undefined && <pre class="in" tabIndex={0} aria-label="Input">{lines(JSON.stringify(r.input, null, 2))}</pre>}
            {r.title && r.title !== r.subject && !plan && <p class="wrap dim">{lines(r.title)}</p>}
            {r.reason && <p class="wrap">Why: {lines(r.reason)}</p>}
          </div>
          {!may && <p class="dim">This page is read-only.</p>}
          {mode === 'edit' && (
            <div class="ask-more">
              <label><span class="label">The tool gets this instead</span><textarea rows={Math.min(8, text.split('\n').length + 1)} value={text} spellcheck={false} onInput={(e) => { setText(e.currentTarget.value); setWrong(''); }} /></label>
              {wrong && <p class="bad" role="alert">{wrong}</p>}
            </div>
          )}
          {mode === 'deny' && (
            <form class="ask-more" onSubmit={(e) => { e.preventDefault(); answer({ decision: 'deny', ...(reason ? { message: reason } : {}) }); }}>
              <label><span class="label">{plan ? 'What should change' : 'Reason, sent to the agent (optional)'}</span><input value={reason} onInput={(e) => setReason(e.currentTarget.value)} /></label>
              <div class="ask-buttons">
                <button type="button" onClick={() => setMode('')}>Back</button><span class="grow" />
                {!plan && <button type="button" class="danger" onClick={() => answer({ decision: 'deny', interrupt: true, ...(reason ? { message: reason } : {}) })}>Deny and stop</button>}
                <button type="submit" class="primary">{plan ? 'Keep planning' : 'Deny'}</button>
              </div>
            </form>
          )}
          {mode === 'always' && always && (
            <div class="ask-more">
              <p class="wrap dim">{lines(always.description || always.label)}</p>
              <div class="ask-buttons"><button onClick={() => setMode('')}>Back</button><span class="grow" /><button class="primary" onClick={() => answer({ decision: 'allow', remember: true })}>{plain(always.label || 'Allow from now on')}</button></div>
            </div>
          )}
          {may && (mode === '' || mode === 'edit') && (
            <div class="ask-buttons" aria-busy={busy}>
              <button class="deny" onClick={() => setMode('deny')}>{plan ? 'Keep planning…' : 'Deny…'}{!coarse && <kbd>n</kbd>}</button>
              <span class="grow" />
              {mode === '' && r.editable && !plan && <button onClick={() => setMode('edit')}>Edit…</button>}
              {mode === 'edit' && <button onClick={() => setMode('')}>Cancel edit</button>}
              {mode === '' && always && <button onClick={() => setMode('always')}>Always…{!coarse && <kbd>a</kbd>}</button>}
              <button class="primary allow" onClick={allow}>{plan ? 'Approve' : mode === 'edit' ? 'Allow as edited' : 'Allow'}{!coarse && <kbd>y</kbd>}</button>
            </div>
          )}
        </>
      )}
    </section>
  );
}

function Questions({ r, answer, may, busy }: { r: DialogueRequest; answer(a: Answer): void; may: boolean; busy: boolean }) {
  const [chosen, setChosen] = useState<Record<string, string[]>>({});
  const [free, setFree] = useState<Record<string, string>>({});
  const list = r.questions ?? [];
  const keyOf = (q: DialogueQuestion) => q.id || q.question;
  const value = (q: DialogueQuestion) => [...(chosen[keyOf(q)] ?? []), ...(free[keyOf(q)]?.trim() ? [free[keyOf(q)]!.trim()] : [])].join(', ');
  const ready = list.length > 0 && list.every((q) => value(q) !== '');
  const pick = (q: DialogueQuestion, label: string, on: boolean) => {
    const k = keyOf(q);
    const now = chosen[k] ?? [];
    setChosen({ ...chosen, [k]: q.multiple ? (on ? [...now, label] : now.filter((x) => x !== label)) : [label] });
    if (!q.multiple) setFree({ ...free, [k]: '' });
  };
  const submit = () => { if (ready) answer({ answers: Object.fromEntries(list.map((q) => [keyOf(q), value(q)])) }); };
  return (
    <form onSubmit={(e) => { e.preventDefault(); submit(); }}>
      <div class="ask-body">
        {list.map((q) => (
          <fieldset key={keyOf(q)}>
            <legend>{q.header && <span class="badge">{plain(q.header)}</span>} {lines(q.question)}</legend>
            {(q.options ?? []).map((o) => (
              <label key={o.label} class="choice">
                <input type={q.multiple ? 'checkbox' : 'radio'} name={r.request_id + keyOf(q)} disabled={!may} checked={(chosen[keyOf(q)] ?? []).includes(o.label)} onChange={(e) => pick(q, o.label, e.currentTarget.checked)} />
                <span><strong>{plain(o.label)}</strong>{o.description && o.description.toLowerCase() !== o.label.toLowerCase() && <span class="dim"> {plain(o.description)}</span>}</span>
              </label>
            ))}
            <label class="choice free"><span class="dim">{q.options?.length ? 'Or' : 'Answer'}</span><input class="grow" disabled={!may} value={free[keyOf(q)] ?? ''} aria-label={`Your own answer to: ${plain(q.question)}`} placeholder="your own answer"
              onInput={(e) => { setFree({ ...free, [keyOf(q)]: e.currentTarget.value }); if (!q.multiple && e.currentTarget.value) setChosen({ ...chosen, [keyOf(q)]: [] }); }} /></label>
          </fieldset>
        ))}
      </div>
      {may && (
        <div class="ask-buttons" aria-busy={busy}>
          <button type="button" class="deny" onClick={() => answer({ decision: 'deny', message: 'The user does not want to answer.' })}>Decline</button>
          <span class="grow" /><button type="submit" class="primary allow" disabled={!ready}>Answer</button>
        </div>
      )}
    </form>
  );
}

interface Choice { value: string; label: string }
interface Field { name: string; label: string; hint: string; type: 'text' | 'number' | 'boolean' | 'one' | 'several' | 'json'; input: string; whole: boolean; choices: Choice[]; required: boolean; value: unknown; all?: true }

/** A form with more fields is written as JSON as a whole. */
const MOST_FIELDS = 300;

/** The fields of the JSON schema of a form. What is not a simple field is written as JSON. The schema comes from the agent, and any part of it may be of any type. */
function fieldsOf(schema: unknown): Field[] {
  type Schema = { title?: unknown; description?: unknown; type?: unknown; format?: unknown; enum?: unknown[]; enumNames?: unknown[]; oneOf?: { const?: unknown; title?: unknown }[]; anyOf?: { const?: unknown; title?: unknown }[]; items?: Schema; default?: unknown };
  const { properties, required } = (schema ?? {}) as { properties?: Record<string, Schema>; required?: string[] };
  if (typeof properties !== 'object' || properties === null) return [];
  const word = (v: unknown, or: string) => (typeof v === 'string' || typeof v === 'number' || typeof v === 'boolean' ? String(v) || or : or);
  const choicesOf = (s: Schema | undefined): Choice[] => {
    const named = s?.oneOf ?? s?.anyOf;
    if (Array.isArray(named)) return named.every((o) => typeof o?.const === 'string') ? named.map((o) => ({ value: o.const as string, label: word(o.title, o.const as string) })) : [];
    if (!Array.isArray(s?.enum) || !s.enum.every((v) => typeof v === 'string')) return [];
    return s.enum.map((v, i) => ({ value: v as string, label: word(s.enumNames?.[i], v as string) }));
  };
  const needs = (name: string) => Array.isArray(required) && required.includes(name);
  const list = Object.entries(properties);
  if (list.length > MOST_FIELDS) {
    const start = Object.fromEntries(list.filter(([name, s]) => needs(name) || s?.default != null).map(([name, s]) => [name, s?.default ?? null]));
    return [{ name: '', label: 'All fields', hint: `${list.length} fields, as a JSON object`, type: 'json', input: 'text', whole: false, choices: [], required: true, value: JSON.stringify(start, null, 2), all: true }];
  }
  return list.map(([name, s]) => {
    const choices = s?.type === 'array' ? choicesOf(s.items) : choicesOf(s);
    const type = choices.length > 0 ? (s.type === 'array' ? 'several' : 'one') : s?.type === 'boolean' ? 'boolean' : s?.type === 'number' || s?.type === 'integer' ? 'number' : s?.type === 'string' ? 'text' : 'json';
    const kinds: Record<string, string> = { email: 'email', uri: 'url', date: 'date' };
    const empty = type === 'boolean' ? false : type === 'several' ? [] : '';
    const value = s?.default == null ? empty : type === 'json' ? JSON.stringify(s.default) : type === 'several' ? (Array.isArray(s.default) ? s.default : []) : type === 'boolean' ? s.default === true : word(s.default, '');
    return { name, label: word(s?.title, name), hint: word(s?.description, ''), type, input: kinds[word(s?.format, '')] ?? 'text', whole: s?.type === 'integer', choices, required: needs(name), value };
  });
}

/** A form that the agent, or a tool server of it, wants to be filled in. */
function Form({ r, fields, answer, may, busy }: { r: DialogueRequest; fields: Field[]; answer(a: Answer): void; may: boolean; busy: boolean }) {
  const [values, setValues] = useState<Record<string, unknown>>(() => Object.fromEntries(fields.map((f) => [f.name, f.value])));
  const [wrong, setWrong] = useState('');
  const set = (f: Field, v: unknown) => { setValues({ ...values, [f.name]: v }); setWrong(''); };
  const submit = () => {
    const input: Record<string, unknown> = {};
    for (const f of fields) {
      const v = values[f.name];
      if (v === '' && !(f.required && f.type === 'text')) continue;
      if (f.type === 'several' && !f.required && (v as string[]).length === 0) continue;
      try {
        if (f.all) {
          const whole = JSON.parse(v as string) as unknown;
          if (typeof whole !== 'object' || whole === null || Array.isArray(whole)) return setWrong(`${f.label}: this is not a JSON object`);
          return answer({ decision: 'allow', input: whole });
        }
        input[f.name] = f.type === 'number' ? Number(v) : f.type === 'json' ? JSON.parse(v as string) as unknown : v;
      } catch (e) {
        setWrong(`${f.label}: this is not JSON: ${(e as Error).message}`);
        return;
      }
    }
    answer({ decision: 'allow', input });
  };
  const entry = (f: Field) => {
    const v = values[f.name];
    if (f.type === 'one') return <select value={v as string} required={f.required} disabled={!may} onChange={(e) => set(f, e.currentTarget.value)}><option value="">{f.required ? 'Choose…' : '(none)'}</option>{f.choices.map((c) => <option key={c.value} value={c.value}>{plain(c.label)}</option>)}</select>;
    if (f.type === 'json') return <textarea rows={f.all ? 12 : 2} value={v as string} required={f.required} disabled={!may} spellcheck={false} placeholder="JSON" onInput={(e) => set(f, e.currentTarget.value)} />;
    return <input type={f.type === 'number' ? 'number' : f.input} step={f.type !== 'number' ? undefined : f.whole ? 1 : 'any'} value={v as string} required={f.required} disabled={!may} onInput={(e) => set(f, e.currentTarget.value)} />;
  };
  return (
    <form onSubmit={(e) => { e.preventDefault(); submit(); }}>
      <div class="ask-body">
        {r.title && <p class="wrap">{lines(r.title)}</p>}
        {r.reason && <p class="wrap dim">{lines(r.reason)}</p>}
        {fields[0]?.all && <pre class="in" tabIndex={0} aria-label="Schema of the form">{lines(JSON.stringify(r.input, null, 2))}</pre>}
        {fields.map((f) => {
          const hint = f.hint && <span class="dim"> {plain(f.hint)}</span>;
          if (f.type === 'boolean') return <label key={f.name} class="choice"><input type="checkbox" disabled={!may} checked={values[f.name] === true} onChange={(e) => set(f, e.currentTarget.checked)} /><span><strong>{plain(f.label)}</strong>{hint}</span></label>;
          if (f.type !== 'several') return <label key={f.name} class="field"><span><strong>{plain(f.label)}</strong>{f.required ? '' : <span class="dim"> (optional)</span>}{hint}</span>{entry(f)}</label>;
          const now = values[f.name] as string[];
          return (
            <fieldset key={f.name}>
              <legend>{plain(f.label)}{hint}</legend>
              {f.choices.map((c) => <label key={c.value} class="choice"><input type="checkbox" disabled={!may} checked={now.includes(c.value)} onChange={(e) => set(f, e.currentTarget.checked ? [...now, c.value] : now.filter((x) => x !== c.value))} /><span>{plain(c.label)}</span></label>)}
            </fieldset>
          );
        })}
        {wrong && <p class="bad" role="alert">{plain(wrong)}</p>}
      </div>
      {may ? (
        <div class="ask-buttons" aria-busy={busy}>
          <button type="button" class="deny" onClick={() => answer({ decision: 'deny' })}>Decline</button>
          <span class="grow" /><button type="submit" class="primary allow">Send</button>
        </div>
      ) : <p class="dim">This page is read-only.</p>}
    </form>
  );
}

export function InboxPage() {
  const list = waiting.value;
  const state = 'Notification' in window ? Notification.permission : 'denied';
  const [, again] = useState(0);
  const notify = async () => {
    if (prefs.value.notify) return prefer({ notify: false });
    if ((await Notification.requestPermission()) === 'granted') prefer({ notify: true });
    again((n) => n + 1);
  };
  if (!dialoguesLoaded.value) return <Empty><p>Loading…</p></Empty>;
  const on = prefs.value.notify && state === 'granted';
  return (
    <section class="page scroll inbox" aria-label="Inbox">
      <div class="page-head">
        <h1>Inbox</h1><span class="dim" role="status">{list.length === 0 ? '' : `${list.length} ${list.length === 1 ? 'request is' : 'requests are'} waiting for you`}</span><span class="grow" />
        {'Notification' in window && (state === 'denied' ? <span class="dim">This browser blocks notifications of this page.</span>
          : <button class="small" aria-pressed={on} onClick={() => void notify()}>{on ? 'Notifications are on' : 'Notify me when an agent asks'}</button>)}
      </div>
      {list.length === 0 ? <Empty><div class="big" aria-hidden="true">✓</div><h2>Nothing is waiting for you</h2><p class="dim">When an agent asks for permission or has a question, it appears here, and in the title of this page.</p><p><a href="#/d">All dialogues</a></p></Empty>
        : list.map((w) => <RequestCard key={w.dialogue_id + w.request.request_id} dialogue={w.dialogue_id} request={w.request} where={nameOf(dialogues.value.get(w.dialogue_id) ?? { name: w.name, dialogue_id: w.dialogue_id })} />)}
    </section>
  );
}
