// The list of dialogues, and the form that starts one.
import { computed, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { DialogueInfo, DialogueRule, InstalledAgent, RuntimeListResult, SystemInfoResult } from '../../../sdk/typescript/src/types.js';
import { dialogues, dialoguesLoaded, learnDialogue, nameOf, waiting } from '../net/dialogues.js';
import { control, epoch, mayWrite } from '../net/sessions.js';
import { fits, ListPage } from '../ui/list.js';
import { ago, askFirst, attempt, Modal, plain, StateMark } from '../ui/parts.js';
import { coarse } from '../ui/prefs.js';
import { go, href, route } from '../ui/route.js';
import { tokens } from './items.js';
import { IsolationField, wordsOf } from './sessions.js';

export const starting = signal(false);

/** What a dialogue does, in a few words. */
export function doing(d: DialogueInfo): string {
  const w = waiting.value.find((x) => x.dialogue_id === d.dialogue_id);
  if (w) return `${w.request.tool ?? w.request.kind}: ${w.request.subject ?? w.request.title ?? w.request.questions?.[0]?.question ?? ''}`;
  if (d.error) return d.error.message;
  if (d.lost_at) return 'TRL is trying to reach its agent';
  if (d.state === 'ended') return d.ended && d.ended.cause !== 'closed' ? d.ended.text || d.ended.cause : d.preview || d.title || '';
  return d.preview || d.title || '';
}

export function costOf(d: DialogueInfo): string {
  const c = d.usage.cost_usd;
  return c === undefined || c === 0 ? '' : `$${c.toFixed(c < 0.1 ? 4 : 2)}`;
}

export function fullness(d: DialogueInfo): number | undefined {
  return d.context && d.context.window > 0 ? Math.round((100 * d.context.used) / d.context.window) : undefined;
}

const filterText = computed(() => (route.value.path[0] === 'd' && !route.value.path[1] ? (route.value.query.get('q') ?? '') : ''));

function matches(d: DialogueInfo, filter: string): boolean {
  return fits(filter, `${d.name} ${d.dialogue_id} ${d.agent} ${d.model} ${doing(d)} ${d.title ?? ''} ${d.tags.join(' ')} ${d.working_dir} ${d.runtime}`, {
    state: (v) => d.state.startsWith(v) || (d.state === 'requires_action' && 'asks'.startsWith(v)),
    agent: (v) => d.agent.startsWith(v),
    tag: (v) => d.tags.some((t) => t.toLowerCase().startsWith(v)),
    on: (v) => d.runtime.toLowerCase().startsWith(v),
  });
}

const rank: Record<string, number> = { requires_action: 0, error: 1, running: 2, starting: 2, idle: 3, ended: 4 };
const sorted = computed(() => [...dialogues.value.values()].sort((a, b) => (rank[a.state] ?? 3) - (rank[b.state] ?? 3) || Date.parse(b.last_activity) - Date.parse(a.last_activity)));
const shown = computed(() => (filterText.value ? sorted.value.filter((d) => matches(d, filterText.value)) : sorted.value));

/** Ends the agent, after a question. */
export function endAgent(d: DialogueInfo): void {
  askFirst({
    title: `End ${nameOf(d)}?`, text: 'The agent and everything it started end. The record stays, and the agent can be resumed.', yes: 'End the agent', danger: true,
    run: () => void attempt(async () => learnDialogue(await control.call<DialogueInfo>('dialogue.terminate', { dialogue_id: d.dialogue_id }))),
  });
}

export function forget(d: DialogueInfo): void {
  askFirst({
    title: `Delete the record of ${nameOf(d)}?`, text: 'The conversation is deleted for good. An agent that still runs is ended first.', yes: 'Delete it', danger: true,
    run: () => void attempt(async () => {
      await control.call('dialogue.terminate', { dialogue_id: d.dialogue_id, forget: true });
      if (route.value.path[1] === d.dialogue_id) go('d');
    }),
  });
}

const HEIGHT = coarse ? 60 : 44;

/** The cost of a dialogue, and how full the context of its agent is, as far as they are known. */
function used(d: DialogueInfo): string {
  const full = fullness(d);
  return [costOf(d), full !== undefined ? `${full} % full` : d.usage.output_tokens ? `${tokens(d.usage.input_tokens + d.usage.output_tokens)} tokens` : ''].filter(Boolean).join(' · ');
}

export function DialoguesPage() {
  return (
    <ListPage title="Dialogues" one="dialogue" class="talks" height={HEIGHT} columns={['Name', 'Agent', 'State', 'What', 'Used', 'Last', 'Tags']}
      loaded={dialoguesLoaded.value} all={sorted.value} shown={shown.value} filter={filterText.value} example="state:asks agent:claude tag:ci on:docker tests"
      id={(d) => d.dialogue_id} over={(d) => d.state === 'ended'} open={(d) => go('d', d.dialogue_id)}
      keys={{ i: (d) => go('d', d.dialogue_id, 'raw'), K: (d) => mayWrite.value && d.state !== 'ended' && endAgent(d) }} hint="i inspects · K ends · g i shows the inbox"
      create={mayWrite.value && <button class="primary" onClick={() => (starting.value = true)}>New dialogue…</button>}
      empty={<>
        <h2>No agents are working for you yet</h2>
        <p>A dialogue is a conversation with a coding agent: Claude Code, Codex, or any agent that speaks the Agent Client Protocol. It continues when this page is closed.</p>
        <Found />
        <pre>trl chat --keep --name fix</pre>
        {mayWrite.value && <p><button class="primary" onClick={() => (starting.value = true)}>New dialogue</button></p>}
      </>}
      cells={(d) => <>
        <span role="gridcell" class="clip"><a href={href('d', d.dialogue_id)} tabIndex={-1}>{plain(nameOf(d))}</a></span>
        <span role="gridcell" class="clip">{plain(d.agent)} <span class="dim">{plain(d.model)}</span></span>
        <span role="gridcell"><StateMark state={d.state} /></span>
        <span role="gridcell" class="clip">{plain(doing(d))}</span>
        <span role="gridcell" class="clip">{used(d)}</span>
        <span role="gridcell">{ago(d.last_activity)}</span>
        <span role="gridcell" class="tags">{d.tags.map((t) => <span key={t} class="tag">{plain(t)}</span>)}</span>
      </>} />
  );
}

/** Which agents are there to talk to. */
function Found() {
  const [list, setList] = useState<InstalledAgent[] | null>(null);
  useEffect(() => { control.call<SystemInfoResult>('system.info', { agents: true }).then((r) => setList(r.agents ?? []), () => undefined); }, [epoch.value]);
  if (!list) return null;
  if (list.length === 0) return <p class="found">No agent was found on the daemon's PATH. Install one, for example Claude Code or Codex, or name its program under “Model, rules and more”.</p>;
  return <p class="found">Found here: {list.map((a, i) => <>{i > 0 && ', '}<code key={a.path} title={plain(a.path)}>{plain(a.argv.join(' '))}</code></>)}</p>;
}

/** Reads rules as people write them: allow Bash(git *), one per line. */
export function rulesOf(text: string): DialogueRule[] {
  return text.split('\n').map((l) => l.trim()).filter(Boolean).map((line) => {
    const m = /^(allow|deny|ask)\s+([^\s(]+)(?:\((.*)\))?$/.exec(line);
    if (!m) throw new Error(`This is not a rule: ${line}. Write allow, deny or ask, the name of a tool, and a pattern in parentheses.`);
    return { action: m[1] as DialogueRule['action'], tool: m[2]!, ...(m[3] ? { pattern: m[3] } : {}) };
  });
}

export function rulesText(rules: { action: string; tool: string; pattern?: string }[]): string {
  return rules.map((r) => `${r.action} ${r.tool}${r.pattern ? `(${r.pattern})` : ''}`).join('\n');
}

const empty = { agent: 'claude', argv: '', name: '', model: '', permission_mode: '', working_dir: '', runtime: '', isolate: '', tags: '', prompt: '', rules: '', deny: '' };
const programs: Record<string, string> = { claude: 'claude', codex: 'codex', acp: 'gemini --acp' };

export function NewDialogue() {
  const [places, setPlaces] = useState<string[]>(['host']);
  const [f, setF] = useState(empty);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const open = starting.value;
  useEffect(() => {
    if (!open) return;
    setError('');
    void control.call<RuntimeListResult>('runtime.list').then((r) => setPlaces(r.runtimes.filter((x) => x.usable !== false && !(x as { argument?: string }).argument).map((x) => x.runtime)), () => undefined);
  }, [open]);
  if (!open) return null;
  const close = () => (starting.value = false);
  const set = (name: keyof typeof empty) => (e: { currentTarget: { value: string } }) => setF({ ...f, [name]: e.currentTarget.value });
  const field = (name: keyof typeof empty, label: string, hint: string) => (
    <label class="field"><span>{label}</span><input value={f[name]} placeholder={hint} list={name === 'runtime' ? 'talk-places' : undefined} autocomplete="off" spellcheck={false} onInput={set(name)} /></label>
  );
  const submit = async () => {
    setBusy(true);
    setError('');
    try {
      const rules = rulesOf(f.rules);
      const d = await control.call<DialogueInfo>('dialogue.create', {
        agent: f.agent, ...(f.argv.trim() ? { argv: wordsOf(f.argv) } : {}), ...(f.name ? { name: f.name } : {}), ...(f.model ? { model: f.model } : {}), ...(f.permission_mode ? { permission_mode: f.permission_mode } : {}),
        ...(f.working_dir ? { working_dir: f.working_dir } : {}), ...(f.runtime ? { runtime: f.runtime } : {}), ...(f.isolate ? { isolation: { profile: f.isolate } } : {}), ...(f.tags ? { tags: f.tags.split(/[\s,]+/).filter(Boolean) } : {}), ...(f.prompt.trim() ? { prompt: f.prompt } : {}),
        ...(rules.length || f.deny ? { policy: { rules, ...(Number(f.deny) > 0 ? { deny_after_s: Number(f.deny) * 60 } : {}) } } : {}),
      });
      learnDialogue(d);
      close();
      setF({ ...f, name: '', prompt: '' });
      go('d', d.dialogue_id);
    } catch (e) {
      const more = (e as { details?: { stderr?: string } }).details?.stderr;
      setError((e as Error).message + (more ? `\n${more}` : ''));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal title="New dialogue" close={close} wide>
      <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <div class="tabs" role="group" aria-label="Agent">
          {([['claude', 'Claude Code'], ['codex', 'Codex'], ['acp', 'Another (ACP)']] as const).map(([k, t]) => <button key={k} type="button" aria-pressed={k === f.agent} onClick={() => setF({ ...f, agent: k })}>{t}</button>)}
        </div>
        <label class="field tall"><span>Message</span><textarea autofocus rows={3} value={f.prompt} placeholder="What should the agent do? It can also wait for your first message." onInput={set('prompt')} /></label>
        {field('working_dir', 'Directory', 'the home directory')}
        {f.agent === 'acp' && field('argv', 'Program', programs[f.agent]!)}
        {field('runtime', 'Where', 'host, docker:alpine, ssh:build, trl:grpcs://box:7331')}
        <datalist id="talk-places">{places.map((p) => <option key={p} value={p} />)}</datalist>
        <IsolationField value={f.isolate} set={set('isolate')} />
        {field('name', 'Name', 'optional')}
        <details>
          <summary>Model, rules and more</summary>
          {field('model', 'Model', "the agent's default")}
          {field('permission_mode', 'Mode', "the agent's default; such as acceptEdits or plan")}
          {f.agent !== 'acp' && field('argv', 'Program', programs[f.agent]!)}
          {field('tags', 'Tags', 'app nightly')}
          <label class="field tall"><span>Rules</span><textarea rows={3} class="mono" value={f.rules} spellcheck={false} placeholder={'deny *(*.env)\nallow Read\nallow Bash(git status*)'} onInput={set('rules')} /></label>
          {field('deny', 'Deny after', 'minutes without a viewer; leave empty to wait')}
        </details>
        {error && <p class="bad wrap" role="alert">{error}</p>}
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary" disabled={busy}>{busy ? 'Starting…' : 'Start'}</button></footer>
      </form>
    </Modal>
  );
}
