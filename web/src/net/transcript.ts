// The transcript of one dialogue. Pages come from dialogue.transcript, everything newer from the
// stream of events. Items are signals, so a delta renders one item, at most once per frame.
import { batch, signal, type Signal } from '@preact/signals';
import type {
  DialogueEvent, DialogueItem, DialogueItemResult, DialogueMessage, DialogueNotice, DialogueRequest, DialogueRetry, DialogueTask, DialogueTranscriptResult, DialogueTurn, MessageState,
} from '../../../sdk/typescript/src/types.js';
import type { Push } from './conn.js';
import { control } from './sessions.js';

const PAGE = 60;
const MOST = 600; // root items in memory
const CUT = 16 << 10;
const FAR = 2000; // events after which reading the pages again is cheaper

export interface Below { ids: readonly string[]; hasBefore: boolean; loaded: boolean }
const nothing: Below = { ids: [], hasBefore: false, loaded: false };

export class Transcript {
  /** The ids of the items that are loaded, in order, without those below tool calls. */
  readonly rows = signal<readonly string[]>([]);
  readonly turns = signal<ReadonlyMap<string, DialogueTurn>>(new Map());
  readonly tasks = signal<ReadonlyMap<string, DialogueTask>>(new Map());
  readonly requests = signal<ReadonlyMap<string, DialogueRequest>>(new Map());
  readonly messages = signal<ReadonlyMap<string, MessageState>>(new Map());
  readonly notices = signal<readonly { after: string; key: string; notice: DialogueNotice }[]>([]);
  readonly retry = signal<DialogueRetry | null>(null);
  readonly hasBefore = signal(false);
  readonly hasAfter = signal(false);
  readonly total = signal(0);
  /** How many items came after the last loaded one, while the end is not loaded. */
  readonly unseen = signal(0);
  readonly loaded = signal(false);
  readonly error = signal('');
  /** Called for a request that closed, so that the page can say who answered it. */
  closed: (r: DialogueRequest) => void = () => undefined;
  /** Called when a turn has ended. */
  ended: (t: DialogueTurn) => void = () => undefined;

  private items = new Map<string, Signal<DialogueItem>>();
  private belows = new Map<string, Signal<Below>>();
  private born = new Set<string>(); // scopes that are known from their first item on
  private changed = new Map<string, DialogueItem>();
  private orders = new Map<string, string[]>(); // scopes whose order has changed; '' is the dialogue
  private frame = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private seq = 0;
  private stream = '';
  private generation = 0;
  private flying = 0;
  private log: DialogueEvent[] = [];
  private busy = new Set<string>();

  constructor(readonly id: string) {}

  /** The item, as a signal. It is only called for ids in rows or below. */
  item(id: string): Signal<DialogueItem> { return this.items.get(id)!; }
  has(id: string): boolean { return this.items.has(id); }

  below(id: string): Signal<Below> {
    let s = this.belows.get(id);
    if (!s) this.belows.set(id, (s = signal(nothing)));
    return s;
  }

  private now(id: string): DialogueItem | undefined { return this.changed.get(id) ?? this.items.get(id)?.peek(); }

  private order(scope: string): string[] {
    let o = this.orders.get(scope);
    if (!o) this.orders.set(scope, (o = [...(scope ? this.below(scope).peek().ids : this.rows.peek())]));
    return o;
  }

  private schedule(): void {
    this.frame ||= requestAnimationFrame(() => this.flush());
    this.timer ??= setTimeout(() => this.flush(), 250); // a hidden page has no frames
  }

  private flush(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.frame = 0;
    this.timer = undefined;
    batch(() => {
      for (const [id, item] of this.changed) {
        const s = this.items.get(id);
        if (s) s.value = item;
        else this.items.set(id, signal(item));
      }
      this.changed.clear();
      for (const [scope, ids] of this.orders) {
        if (scope) this.below(scope).value = { ...this.below(scope).peek(), ids, loaded: true };
        else this.rows.value = ids;
      }
      this.orders.clear();
    });
  }

  // ---- pages

  private async page(params: object): Promise<DialogueTranscriptResult> {
    this.flying++;
    try {
      return await control.call<DialogueTranscriptResult>('dialogue.transcript', { dialogue_id: this.id, limit: PAGE, depth: 0, cut_bytes: CUT, ...params });
    } finally {
      // The events that came meanwhile are applied by merge, which runs before the next task.
      queueMicrotask(() => queueMicrotask(() => { if (--this.flying === 0) this.log = []; }));
    }
  }

  private take(r: DialogueTranscriptResult): void {
    for (const i of r.items) {
      this.changed.set(i.item_id, i);
      if (i.tool && !this.born.has(i.item_id)) this.below(i.item_id).value = { ...nothing, loaded: !i.tool.items_count };
    }
    const add = <T>(s: Signal<ReadonlyMap<string, T>>, list: T[], key: (t: T) => string) => {
      if (list.length === 0) return;
      const next = new Map(s.peek());
      for (const t of list) next.set(key(t), t);
      s.value = next;
    };
    add(this.turns, r.turns, (t) => t.turn_id);
    add(this.tasks, r.tasks, (t) => t.tool_call_id ?? t.task_id);
    add(this.requests, r.requests, (t) => t.request_id);
    const sent = r.items.filter((i) => i.message);
    if (sent.length) this.messages.value = new Map([...this.messages.peek(), ...sent.map((i) => [i.item_id, i.message!] as const)]);
  }

  /** Applies the events that are newer than the page, to what the page has or ends with. */
  private replay(r: DialogueTranscriptResult, scope: string, toEnd: boolean): void {
    const ids = new Set(r.items.map((i) => i.item_id));
    for (const e of this.log) {
      if (e.message && e.seq > r.seq) this.move(e.message);
      const id = e.item?.item_id ?? e.delta?.item_id ?? '';
      if (e.seq > r.seq && (ids.has(id) || (toEnd && (e.scope ?? '') === scope))) this.applyItem(e);
    }
    for (const i of r.items) if (i.tool?.items_count && this.running(i)) void this.unfold(i.item_id);
  }

  private running(i: DialogueItem): boolean {
    return i.tool?.status === 'running' || i.tool?.status === 'pending' || this.tasks.peek().get(i.item_id)?.status === 'running';
  }

  private first: Promise<void> | undefined;

  /** Reads the end, unless something is there or on its way. */
  begin(): Promise<void> {
    if (this.loaded.peek()) return Promise.resolve();
    return (this.first ??= this.open().finally(() => (this.first = undefined)));
  }

  /** Reads the end, or the items around one. */
  async open(around = ''): Promise<void> {
    try {
      const r = await this.page(around ? { around } : {});
      batch(() => {
        // Rows that stay keep their signals, which are drawn already.
        const stay = new Set(r.items.map((i) => i.item_id));
        for (const id of this.order('')) if (!stay.has(id)) this.forget(id);
        this.changed.clear();
        this.orders.clear();
        this.born.clear();
        this.take(r);
        this.hasBefore.value = r.has_before ?? false;
        this.hasAfter.value = r.has_after ?? false;
        this.total.value = r.total_items ?? r.items.length;
        this.unseen.value = 0;
        this.orders.set('', r.items.map((i) => i.item_id));
        if (!this.loaded.peek()) this.seq = r.seq;
        this.replay(r, '', !this.hasAfter.peek());
        this.flush();
        this.loaded.value = true;
        this.error.value = '';
      });
    } catch (e) {
      if (!(e as { lost?: boolean }).lost) this.error.value = (e as Error).message;
    }
  }

  async earlier(): Promise<void> { await this.more('before'); }
  async later(): Promise<void> { await this.more('after'); }

  private async more(where: 'before' | 'after'): Promise<void> {
    const flag = where === 'before' ? this.hasBefore : this.hasAfter;
    const rows = this.rows.peek();
    const edge = where === 'before' ? rows[0] : rows[rows.length - 1];
    if (!flag.peek() || !edge || this.busy.has(where)) return;
    this.busy.add(where);
    try {
      const r = await this.page({ [where]: edge });
      const now = this.order('');
      if ((where === 'before' ? now[0] : now[now.length - 1]) !== edge) return; // the page was opened anew
      batch(() => {
        this.take(r);
        const ids = r.items.map((i) => i.item_id);
        this.orders.set('', where === 'before' ? [...ids, ...now] : [...now, ...ids]);
        flag.value = (where === 'before' ? r.has_before : r.has_after) ?? false;
        this.total.value = r.total_items ?? this.total.peek();
        if (where === 'after' && !flag.peek()) this.unseen.value = 0;
        this.replay(r, '', where === 'after' && !flag.peek());
        this.trim(where === 'before' ? 'end' : 'start');
        this.flush();
      });
    } catch { /* the next scroll tries again */ } finally {
      this.busy.delete(where);
    }
  }

  /** Forgets items at one end, so that a long conversation does not fill the memory. */
  private trim(where: 'start' | 'end'): void {
    const o = this.order('');
    if (o.length <= MOST) return;
    const gone = where === 'start' ? o.splice(0, o.length - MOST) : o.splice(MOST);
    for (const id of gone) this.forget(id);
    if (where === 'start') this.hasBefore.value = true;
    else this.hasAfter.value = true;
  }

  private forget(id: string): void {
    for (const child of this.belows.get(id)?.peek().ids ?? []) this.forget(child);
    this.belows.delete(id);
    this.born.delete(id);
    this.changed.delete(id);
    // The signal stays in the rows that are drawn until the next flush.
    this.items.delete(id);
  }

  /** Reads the items below a tool call, or those before the ones that are there. */
  async unfold(scope: string, o: { before?: boolean; around?: string } = {}): Promise<void> {
    const was = this.below(scope).peek();
    if ((was.loaded && !o.before && !o.around) || this.busy.has(scope)) return;
    this.busy.add(scope);
    try {
      const r = await this.page({ scope, limit: 200, ...(o.before && was.ids[0] ? { before: was.ids[0] } : o.around ? { around: o.around } : {}) });
      batch(() => {
        this.take(r);
        const ids = r.items.map((i) => i.item_id);
        this.orders.set(scope, o.before ? [...ids, ...this.order(scope)] : ids);
        this.replay(r, scope, !r.has_after);
        this.below(scope).value = { ...this.below(scope).peek(), hasBefore: r.has_before ?? false };
        this.flush();
      });
    } catch { /* it can be unfolded again */ } finally {
      this.busy.delete(scope);
    }
  }

  /** Reads an item without cuts. */
  async whole(id: string): Promise<void> {
    const r = await control.call<DialogueItemResult>('dialogue.item', { dialogue_id: this.id, item_id: id });
    if (r.item) {
      this.changed.set(id, r.item);
      this.flush();
    }
  }

  /** Loads what is needed to show an item, and returns the tool calls it is in, outermost first. */
  async locate(id: string): Promise<string[]> {
    const path: string[] = [];
    for (let at = id; ;) {
      const r = await control.call<DialogueItemResult>('dialogue.item', { dialogue_id: this.id, item_id: at });
      if (!r.scope) break;
      path.unshift(r.scope);
      at = r.scope;
    }
    const root = path[0] ?? id;
    if (!this.rows.peek().includes(root)) await this.open(root);
    for (const [i, scope] of path.entries()) {
      const next = path[i + 1] ?? id;
      if (!this.below(scope).peek().ids.includes(next)) await this.unfold(scope, { around: next });
    }
    return path;
  }

  // ---- events

  /** Follows the events after the last known one. It is called again after every connect. */
  async follow(latest: number): Promise<void> {
    this.unfollow();
    if (latest - this.seq > FAR) {
      this.loaded.value = false;
      await this.open();
    }
    const mine = ++this.generation;
    const start = await control.stream('dialogue.events', { dialogue_id: this.id, after_seq: this.seq, ...(document.hidden ? { passive: true } : {}) }, (p) => {
      if (mine === this.generation) this.receive(p);
    });
    if (mine === this.generation) this.stream = start.stream_id;
    else control.end(start.stream_id);
  }

  unfollow(): void {
    this.generation++;
    if (this.stream) control.end(this.stream);
    this.stream = '';
  }

  private receive(p: Push): void {
    const e = p.event;
    if (p.type === 'end') this.stream = '';
    if (!e || e.seq <= this.seq) return;
    this.seq = e.seq;
    if (this.flying) this.log.push(e);
    batch(() => this.apply(e));
  }

  private apply(e: DialogueEvent): void {
    const set = <T>(s: Signal<ReadonlyMap<string, T>>, key: string, value: T) => { s.value = new Map(s.peek()).set(key, value); };
    switch (e.type) {
      case 'item':
      case 'delta':
      case 'retracted':
        this.retry.value = null;
        this.applyItem(e);
        break;
      case 'turn_started':
      case 'turn_ended':
        this.retry.value = null;
        set(this.turns, e.turn!.turn_id, { ...this.turns.peek().get(e.turn!.turn_id), ...e.turn! });
        if (e.type === 'turn_ended') this.ended(e.turn!);
        break;
      case 'task': set(this.tasks, e.task!.tool_call_id ?? e.task!.task_id, e.task!); break;
      case 'request_opened': set(this.requests, e.request!.request_id, { opened_at: e.at, ...e.request! }); break;
      case 'request_closed': {
        const known = this.requests.peek().get(e.request!.request_id);
        set(this.requests, e.request!.request_id, { ...known, ...e.request! });
        if (known && !known.how) this.closed(this.requests.peek().get(e.request!.request_id)!);
        break;
      }
      case 'message': this.move(e.message!); break;
      case 'retry': this.retry.value = e.retry!; break;
      case 'notice':
      case 'compacted': {
        const notice = e.notice ?? { level: 'info' as const, code: 'compacted', text: 'The agent shortened its context.' };
        const o = this.order('');
        this.notices.value = [...this.notices.peek().slice(-49), { after: o[o.length - 1] ?? '', key: String(e.seq), notice }];
        break;
      }
    }
  }

  private move(m: DialogueMessage): void { this.messages.value = new Map(this.messages.peek()).set(m.message_id, m.state); }

  private applyItem(e: DialogueEvent): void {
    const scope = e.scope ?? '';
    if (e.retracted) {
      for (const id of e.retracted) {
        for (const s of ['', scope]) {
          const o = this.order(s);
          const at = o.indexOf(id);
          if (at >= 0) o.splice(at, 1);
        }
      }
    }
    if (e.delta) {
      const item = this.now(e.delta.item_id);
      if (item) this.changed.set(e.delta.item_id, extend(item, e.delta.field, e.delta.text));
    }
    if (e.item) {
      const id = e.item.item_id;
      if (this.now(id)) this.changed.set(id, e.item);
      else if (!scope && this.hasAfter.peek()) this.unseen.value++;
      else if (scope && this.now(scope) && !this.below(scope).peek().loaded && !this.orders.has(scope)) void this.unfold(scope);
      else {
        this.changed.set(id, e.item);
        if (e.item.tool) this.born.add(id);
        this.order(scope).push(id);
        if (e.item.tool && !this.below(id).peek().loaded) this.below(id).value = { ...this.below(id).peek(), loaded: true };
        if (!scope) {
          this.total.value++;
          if (this.order('').length > MOST + 200) this.trim('start');
        }
      }
    }
    this.schedule();
  }

  close(): void {
    this.unfollow();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }
}

/** Appends the text of a delta to an item. A text that was cut stays as it is until the item is final. */
function extend(item: DialogueItem, field: string, text: string): DialogueItem {
  if (field === 'text') {
    const parts = [...(item.parts ?? [])];
    const last = parts[parts.length - 1];
    if (last?.cut) return item;
    if (last?.type === 'text') parts[parts.length - 1] = { ...last, text: (last.text ?? '') + text };
    else parts.push({ type: 'text', text });
    return { ...item, parts };
  }
  if (!item.tool) return item;
  if (field === 'output') {
    const output = [...(item.tool.output ?? [])];
    const last = output[output.length - 1];
    if (last?.cut) return item;
    if (last?.type === 'text') output[output.length - 1] = { ...last, text: (last.text ?? '') + text };
    else output.push({ type: 'text', text });
    return { ...item, tool: { ...item.tool, output } };
  }
  // The input arrives as pieces of JSON; the final item has it parsed.
  return { ...item, tool: { ...item.tool, input: (typeof item.tool.input === 'string' ? item.tool.input : '') + text } };
}
