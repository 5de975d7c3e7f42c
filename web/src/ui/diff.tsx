// The difference of two texts by lines.
import { useMemo } from 'preact/hooks';
import { lines } from './parts.js';

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

export function Diff({ before, after, numbers = true }: { before: string; after: string; numbers?: boolean }) {
  const all = useMemo(() => compare(before, after), [before, after]);
  const rows = [];
  let skipped = 0;
  for (const [i, l] of all.entries()) {
    if (rows.length >= MOST) break;
    const near = l.kind !== ' ' || all.slice(Math.max(0, i - AROUND), i + AROUND + 1).some((x) => x.kind !== ' ');
    if (!near) {
      skipped++;
      continue;
    }
    if (skipped) rows.push(<div key={'s' + i} class="diff-skip dim">⋯ {skipped} equal {skipped === 1 ? 'line' : 'lines'}</div>);
    skipped = 0;
    rows.push(
      <div key={i} class={'diff-line ' + (l.kind === '+' ? 'plus' : l.kind === '-' ? 'minus' : '')}>
        {numbers && <span class="no" aria-hidden="true">{l.b || l.a}</span>}<span class="sign">{l.kind === '-' ? '−' : l.kind}</span><span class="code-text">{lines(l.text)}</span>
      </div>,
    );
  }
  return <div class="diff" tabIndex={0} role="region" aria-label="Changes"><div class="diff-in">{rows}{all.length > MOST && rows.length >= MOST && <div class="diff-skip dim">The rest is not shown.</div>}</div></div>;
}
