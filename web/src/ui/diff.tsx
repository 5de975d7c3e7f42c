// The difference of two texts by lines.
import { useMemo } from 'preact/hooks';
import { lines } from './parts.js';
import { prefer, prefs } from './prefs.js';

export interface DiffLine { kind: ' ' | '-' | '+'; text: string; a: number; b: number }

/** The lines of two texts that are equal, removed and added. Above a size, everything between the equal ends counts as changed. */
export function compare(before: string, after: string): DiffLine[] {
  const split = (s: string) => (s === '' ? [] : s.replace(/\n$/, '').split('\n'));
  const a = split(before);
  const b = split(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const n = a.length - head - tail;
  const m = b.length - head - tail;
  const out: DiffLine[] = [];
  for (let i = 0; i < head; i++) out.push({ kind: ' ', text: a[i]!, a: i + 1, b: i + 1 });
  const small = n * m <= 1_000_000;
  const table = small ? Array.from({ length: n + 1 }, () => new Uint16Array(m + 1)) : [];
  if (small) for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) table[i]![j] = a[head + i] === b[head + j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!);
  let i = 0;
  let j = 0;
  while (i < n || j < m) {
    if (small && i < n && j < m && a[head + i] === b[head + j]) {
      out.push({ kind: ' ', text: a[head + i]!, a: head + i + 1, b: head + j + 1 });
      i++;
      j++;
    } else if (i < n && (j >= m || !small || table[i + 1]![j]! >= table[i]![j + 1]!)) out.push({ kind: '-', text: a[head + i]!, a: head + ++i, b: 0 });
    else out.push({ kind: '+', text: b[head + j]!, a: 0, b: head + ++j });
  }
  for (let k = 0; k < tail; k++) out.push({ kind: ' ', text: a[a.length - tail + k]!, a: a.length - tail + k + 1, b: b.length - tail + k + 1 });
  return out;
}

export function count(d: DiffLine[]): { added: number; removed: number } {
  return { added: d.filter((l) => l.kind === '+').length, removed: d.filter((l) => l.kind === '-').length };
}

const AROUND = 3;
const MOST = 2000;

/** The lines that are near a change; a number stands for that many equal ones. */
function near(all: DiffLine[]): (DiffLine | number)[] {
  const out: (DiffLine | number)[] = [];
  let skipped = 0;
  for (const [i, l] of all.entries()) {
    if (out.length >= MOST) break;
    if (l.kind === ' ' && !all.slice(Math.max(0, i - AROUND), i + AROUND + 1).some((x) => x.kind !== ' ')) {
      skipped++;
      continue;
    }
    if (skipped) out.push(skipped);
    skipped = 0;
    out.push(l);
  }
  return out;
}

/** The same side by side: a line that was removed is beside the one that took its place. */
function beside(list: (DiffLine | number)[]): (number | [DiffLine | null, DiffLine | null])[] {
  const out: (number | [DiffLine | null, DiffLine | null])[] = [];
  let [removed, added]: [DiffLine[], DiffLine[]] = [[], []];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) out.push([removed[i] ?? null, added[i] ?? null]);
    [removed, added] = [[], []];
  };
  for (const l of list) {
    if (typeof l === 'number' || l.kind === ' ') {
      flush();
      out.push(typeof l === 'number' ? l : [l, l]);
    } else (l.kind === '-' ? removed : added).push(l);
  }
  flush();
  return out;
}

const classOf = (l: DiffLine | null) => (l?.kind === '+' ? ' plus' : l?.kind === '-' ? ' minus' : '');
const signOf = (l: DiffLine) => (l.kind === '-' ? '−' : l.kind);

/** The changes as a quotation for a message. */
function quotation(path: string, list: (DiffLine | number)[]): string {
  const changed = list.filter((l): l is DiffLine => typeof l !== 'number' && l.kind !== ' ').slice(0, 40);
  return `${path}\n${changed.map((l) => `> ${l.kind} ${l.text}`).join('\n')}\n`;
}

/** path: the file, if the changes can be quoted in a message; quote takes the quotation. */
export function Diff({ before, after, numbers = true, path = '', quote }: { before: string; after: string; numbers?: boolean; path?: string; quote?: ((text: string) => void) | undefined }) {
  const list = useMemo(() => near(compare(before, after)), [before, after]);
  const split = prefs.value.split && before !== '' && after !== '' && matchMedia('(min-width: 701px)').matches;
  const no = (n: number) => numbers && <span class="no" aria-hidden="true">{n}</span>;
  const skip = (i: number, n: number) => <div key={i} class="diff-skip dim">⋯ {n} equal {n === 1 ? 'line' : 'lines'}</div>;
  const half = (l: DiffLine | null, n: number) => <span class={'diff-line half' + classOf(l)}>{l && <>{no(n)}<span class="sign">{signOf(l)}</span><span class="code-text">{lines(l.text)}</span></>}</span>;
  return (
    <div class="diff-box">
      <div class="diff-head group">
        {before !== '' && after !== '' && <button class="small ghost wide-only" aria-pressed={split} onClick={() => prefer({ split: !split })}>Side by side</button>}
        {quote && <button class="small ghost" onClick={() => quote(quotation(path, list))}>Quote</button>}
      </div>
      <div class={'diff' + (split ? ' split' : '')} tabIndex={0} role="region" aria-label="Changes">
        <div class="diff-in">
          {split ? beside(list).map((l, i) => (typeof l === 'number' ? skip(i, l) : <div key={i} class="diff-pair">{half(l[0], l[0]?.a ?? 0)}{half(l[1], l[1]?.b ?? 0)}</div>))
            : list.map((l, i) => (typeof l === 'number' ? skip(i, l) : <div key={i} class={'diff-line' + classOf(l)}>{no(l.b || l.a)}<span class="sign">{signOf(l)}</span><span class="code-text">{lines(l.text)}</span></div>))}
          {list.length >= MOST && <div class="diff-skip dim">The rest is not shown.</div>}
        </div>
      </div>
    </div>
  );
}
