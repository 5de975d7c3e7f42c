// A list of many things: its filter, its keys, and a row for each.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Empty, Virtual } from './parts.js';
import { setQuery } from './route.js';

/** Whether every word of a filter fits: words with the name of a field and a colon look there, all others anywhere. */
export function fits(filter: string, text: string, fields: Record<string, (value: string) => boolean>): boolean {
  const all = text.toLowerCase();
  return filter.toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
    const name = word.slice(0, Math.max(0, word.indexOf(':')));
    return Object.hasOwn(fields, name) ? fields[name]!(word.slice(name.length + 1)) : all.includes(word);
  });
}

export function ListPage<T>(p: {
  title: string; one: string; class: string; height: number; columns: string[]; loaded: boolean;
  all: readonly T[]; shown: readonly T[]; filter: string; example: string; id(x: T): string; over(x: T): boolean; cells(x: T): ComponentChildren; open(x: T): void;
  /** What more keys do with the row that is chosen, and a sentence about them. */
  keys: Record<string, (x: T) => void>; hint: string;
  /** The button that makes a new one, and what is shown while there is none. */
  create: ComponentChildren; empty: ComponentChildren;
}) {
  const { shown: list, all, height } = p;
  const [at, setAt] = useState(0);
  const box = useRef<HTMLElement | null>(null);
  const index = Math.min(at, Math.max(0, list.length - 1));
  const move = (i: number) => {
    const n = Math.max(0, Math.min(list.length - 1, i));
    setAt(n);
    const b = box.current;
    if (!b) return;
    if (n * height < b.scrollTop) b.scrollTop = n * height;
    else if ((n + 2) * height > b.scrollTop + b.clientHeight) b.scrollTop = (n + 2) * height - b.clientHeight;
  };
  const keys = (e: KeyboardEvent) => {
    const x = list[index];
    const run: Record<string, () => void> = {
      ArrowDown: () => move(index + 1), j: () => move(index + 1), ArrowUp: () => move(index - 1), k: () => move(index - 1), Home: () => move(0), End: () => move(list.length - 1),
      PageDown: () => move(index + 10), PageUp: () => move(index - 10), Enter: () => x && p.open(x), o: () => x && p.open(x),
    };
    const f = run[e.key] ?? (p.keys[e.key] && (() => x && p.keys[e.key]!(x)));
    if (e.ctrlKey || e.altKey || e.metaKey || !f) return;
    e.preventDefault();
    f();
  };
  useEffect(() => box.current?.focus({ preventScroll: true }), [p.loaded && all.length > 0]);
  if (!p.loaded) return <Empty><p>Loading…</p></Empty>;
  const name = p.title.toLowerCase();
  return (
    <section class="page" aria-label={p.title}>
      <div class="bar">
        <input id="filter" class="filter grow" aria-label={`Filter the ${name}`} placeholder={`/ filter: ${p.example}`} value={p.filter}
          onInput={(e) => setQuery('q', e.currentTarget.value)} onKeyDown={(e) => { if (e.key === 'Escape' || e.key === 'Enter') { e.preventDefault(); box.current?.focus(); } }} />
        {p.create}
      </div>
      {all.length === 0 ? <Empty>{p.empty}</Empty> : list.length === 0 ? (
        <Empty><p>0 of {all.length} {name} match.</p><p><button onClick={() => setQuery('q', '')}>Clear the filter</button></p></Empty>
      ) : (
        <Virtual count={list.length} height={height} class={'grid ' + p.class} label={p.title} role="grid" columns={p.columns.length} box={(b) => (box.current = b)} keys={keys} active={'row-' + p.id(list[index]!)}
          header={<div role="rowgroup" class="thead"><div role="row" aria-rowindex={1} class="tr">{p.columns.map((h) => <span key={h} role="columnheader">{h}</span>)}</div></div>}
          row={(i, style) => {
            const x = list[i]!;
            return (
              <div key={p.id(x)} id={'row-' + p.id(x)} role="row" aria-rowindex={i + 2} aria-selected={i === index} class={'tr' + (i === index ? ' at' : '') + (p.over(x) ? ' over' : '')} style={style}
                onClick={() => { setAt(i); p.open(x); }}>{p.cells(x)}</div>
            );
          }} />
      )}
      <div class="foot dim" role="status">{list.length === all.length ? `${list.length} ${list.length === 1 ? p.one : name}` : `${list.length} of ${all.length} ${name}`}<span class="hint"> · Enter opens · {p.hint}</span></div>
    </section>
  );
}
