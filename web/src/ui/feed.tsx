// A list of rows of any height, of which only those near the view are in the document. What is read
// stays where it is when rows above it appear, disappear or turn out to have another height. At its
// end the list sticks to the end.
import type { ComponentChildren, VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { lacks, rowAt, span, type Anchor, type Span } from './window.js';

export interface FeedHandle {
  /** Goes to the end and stays there. */
  end(): void;
  /** Shows a row at the top of the view. */
  show(key: string): void;
  /** Moves the focus by rows. */
  step(by: number): void;
}

const GUESS = 56; // height of a row that was never drawn
const NEAR = 48; // this close to the end counts as the end

const rowsIn = (list: HTMLElement) => ([...list.children] as HTMLElement[]).filter((e) => e.dataset['key'] !== undefined);
/** Whether the browser itself keeps what is read in its place. Setting scrollTop would stop a smooth scroll. */
const anchors = CSS.supports('overflow-anchor', 'auto');

export function Feed(p: {
  keys: readonly string[]; row(key: string): ComponentChildren; label: string; live: boolean; handle(h: FeedHandle | null): void;
  top?(): void; bottom?(): void; stuck?(s: boolean): void; header?: ComponentChildren; busy?: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const drawn = useRef(new Map<string, VNode>());
  const now = useRef<Span>({ first: 0, last: 0, above: 0, under: 0 });
  const view = useRef({ stick: p.live, key: '', delta: 0, top: -1, wanted: false });
  const [, tick] = useState(0);
  const props = useRef(p);
  props.current = p;

  const v = view.current;
  if (!p.live) v.stick = false;
  const height = (i: number) => heights.current.get(props.current.keys[i]!) ?? GUESS;

  /** The rows that belong into the document for what is read now. */
  const plan = (): Span => {
    const keys = props.current.keys;
    const tall = box.current?.clientHeight ?? 800;
    let anchor: Anchor = { at: keys.indexOf(v.key), delta: v.delta };
    if (v.stick) anchor = { at: keys.length, delta: tall };
    else if (!v.key) anchor = { at: 0, delta: 0 };
    else if (anchor.at < 0) { // the row has gone: the one at the same place
      anchor = rowAt(keys.length, height, v.top);
      v.key = keys[anchor.at] ?? '';
      v.delta = anchor.delta;
    }
    return span(keys.length, height, anchor, tall);
  };
  const { first, last, above, under } = (now.current = plan());

  const rowOf = (key: string) => inner.current?.querySelector<HTMLElement>(`:scope > [data-key="${CSS.escape(key)}"]`) ?? null;

  /** Notes the row at the top of the view, as what is read. */
  const look = (b: HTMLElement) => {
    const list = inner.current!;
    const seen = rowsIn(list).find((e) => e.offsetTop + e.offsetHeight > b.scrollTop);
    if (seen && seen.offsetTop < b.scrollTop + b.clientHeight) {
      Object.assign(view.current, { key: seen.dataset['key'], delta: seen.offsetTop - b.scrollTop });
    } else { // a jump to where nothing is drawn
      const { at, delta } = rowAt(props.current.keys.length, height, b.scrollTop - list.offsetTop);
      Object.assign(view.current, { key: props.current.keys[at] ?? '', delta });
    }
  };

  const settle = () => {
    const b = box.current;
    const list = inner.current;
    if (!b || !list) return;
    const s = view.current;
    const rows = rowsIn(list);
    for (const el of rows) heights.current.set(el.dataset['key']!, el.offsetHeight);
    let to = b.scrollTop;
    if (s.stick) to = b.scrollHeight - b.clientHeight;
    else if (!anchors || s.wanted || s.top <= 0) to = (rowOf(s.key)?.offsetTop ?? to + s.delta) - s.delta; // at the very top no browser does it
    if (Math.abs(to - b.scrollTop) >= 1) b.scrollTop = to;
    if (s.stick || s.wanted || !anchors || s.top <= 0) s.top = b.scrollTop;
    const head = rows[0];
    const tail = rows[rows.length - 1];
    const keys = props.current.keys;
    if (head && tail && lacks(now.current, keys.length, head.offsetTop - b.scrollTop, tail.offsetTop + tail.offsetHeight - b.scrollTop, b.clientHeight)) {
      // The browser may have moved the view, because the list became shorter: the rows follow the view.
      if (!s.stick && !s.wanted) look(b);
      // Only another window can help. Drawing the same one again would never end, and the page would hang.
      const next = plan();
      if (next.first !== now.current.first || next.last !== now.current.last) tick((x) => x + 1);
    }
    if (head?.dataset['key'] === keys[0] && b.scrollTop < 600) props.current.top?.();
    if (tail?.dataset['key'] === keys[keys.length - 1] && b.scrollHeight - b.scrollTop - b.clientHeight < 600) props.current.bottom?.();
  };

  const scrolled = () => {
    const b = box.current;
    if (!b) return; // the page has gone before the event came
    const s = view.current;
    if (Math.abs(b.scrollTop - s.top) < 1) return; // the page itself did it
    s.wanted = false;
    const up = b.scrollTop < s.top;
    const far = b.scrollHeight - b.scrollTop - b.clientHeight;
    const was = s.stick;
    if (up && far > 1) s.stick = false; // also by a little: a smooth scroll begins slowly
    else if (!up && far <= NEAR) s.stick = props.current.live;
    s.top = b.scrollTop;
    look(b);
    if (was !== s.stick) props.current.stuck?.(s.stick);
    tick((x) => x + 1);
  };

  useLayoutEffect(settle);
  useLayoutEffect(() => {
    const o = new ResizeObserver(settle);
    o.observe(box.current!);
    o.observe(inner.current!);
    p.handle({
      end: () => {
        Object.assign(view.current, { stick: true, wanted: false });
        props.current.stuck?.(true);
        tick((x) => x + 1);
      },
      show: (key) => {
        Object.assign(view.current, { stick: false, key, delta: 12, wanted: true });
        props.current.stuck?.(false);
        tick((x) => x + 1);
      },
      step: (by) => {
        const now = document.activeElement?.closest<HTMLElement>('[data-key]');
        const keys = props.current.keys;
        const i = now?.dataset['key'] ? keys.indexOf(now.dataset['key']) + by : by > 0 ? keys.indexOf(view.current.key) : keys.length - 1;
        const key = keys[Math.max(0, Math.min(keys.length - 1, i))];
        const el = key ? rowOf(key) : null;
        el?.focus({ preventScroll: true });
        el?.scrollIntoView({ block: 'nearest' });
      },
    });
    return () => { o.disconnect(); p.handle(null); };
  }, []);

  // A row is made once and then drawn by its signals; the same vnode is not compared again.
  const rows = [];
  const next = new Map<string, VNode>();
  for (let i = first; i < last; i++) {
    const key = p.keys[i]!;
    const made = drawn.current.get(key) ?? (<>{p.row(key)}</> as VNode);
    next.set(key, made);
    rows.push(<div key={key} data-key={key} class="feed-row" role="article" tabIndex={-1} aria-posinset={i + 1} aria-setsize={-1}>{made}</div>);
  }
  drawn.current = next;
  return (
    <div ref={box} class="feed" role="feed" aria-label={p.label} aria-busy={p.busy ?? false} tabIndex={0} onScroll={scrolled}>
      {p.header}
      <div ref={inner} class="feed-rows" role="presentation"><div class="spacer" style={{ height: `${above}px` }} />{rows}<div class="spacer" style={{ height: `${under}px` }} /></div>
    </div>
  );
}
