// Colours of command output: the sequences that set colours and weight become elements, all others
// are left out. There is no HTML anywhere on the way.
import type { JSX } from 'preact';
import { plain } from './parts.js';

interface Style { fg: string; bg: string; bold: boolean; dim: boolean; italic: boolean; under: boolean; inverse: boolean }
const none: Style = { fg: '', bg: '', bold: false, dim: false, italic: false, under: false, inverse: false };

function cube(n: number): string {
  if (n < 16) return `var(--c${n})`;
  if (n > 231) return `rgb(${Array(3).fill(8 + (n - 232) * 10).join()})`;
  const v = [Math.floor((n - 16) / 36), Math.floor((n - 16) / 6) % 6, (n - 16) % 6].map((x) => (x ? 55 + x * 40 : 0));
  return `rgb(${v.join()})`;
}

function apply(s: Style, codes: number[]): Style {
  s = { ...s };
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i] ?? 0;
    if (c === 0) s = { ...none };
    else if (c === 1) s.bold = true;
    else if (c === 2) s.dim = true;
    else if (c === 3) s.italic = true;
    else if (c === 4) s.under = true;
    else if (c === 7) s.inverse = true;
    else if (c === 22) s.bold = s.dim = false;
    else if (c === 23) s.italic = false;
    else if (c === 24) s.under = false;
    else if (c === 27) s.inverse = false;
    else if (c >= 30 && c <= 37) s.fg = cube(c - 30);
    else if (c >= 90 && c <= 97) s.fg = cube(c - 82);
    else if (c >= 40 && c <= 47) s.bg = cube(c - 40);
    else if (c >= 100 && c <= 107) s.bg = cube(c - 92);
    else if (c === 39) s.fg = '';
    else if (c === 49) s.bg = '';
    else if (c === 38 || c === 48) {
      let colour = '';
      if (codes[i + 1] === 5) { colour = cube(Math.min(255, codes[i + 2] ?? 0)); i += 2; }
      else if (codes[i + 1] === 2) { colour = `rgb(${codes.slice(i + 2, i + 5).map((x) => Math.min(255, x)).join()})`; i += 4; }
      if (c === 38) s.fg = colour;
      else s.bg = colour;
    }
  }
  return s;
}

function css(s: Style): JSX.CSSProperties | undefined {
  if (s === none) return undefined;
  const [fg, bg] = s.inverse ? [s.bg || 'var(--bg)', s.fg || 'var(--text)'] : [s.fg, s.bg];
  return {
    ...(fg ? { color: fg } : {}), ...(bg ? { backgroundColor: bg } : {}), ...(s.bold ? { fontWeight: 'bold' } : {}), ...(s.dim ? { opacity: 0.7 } : {}),
    ...(s.italic ? { fontStyle: 'italic' } : {}), ...(s.under ? { textDecoration: 'underline' } : {}),
  };
}

const sequence = /\u001b(?:\[([0-9;:]*)([@-~])|\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;

/** One line as elements. Every line begins without a style. */
export function Ansi({ text }: { text: string }) {
  if (!text.includes('\u001b')) return <>{plain(text)}</>;
  const out: JSX.Element[] = [];
  let style = none;
  let at = 0;
  const add = (to: number) => { if (to > at) out.push(<span key={at} style={css(style)}>{plain(text.slice(at, to))}</span>); };
  for (const m of text.matchAll(sequence)) {
    add(m.index);
    at = m.index + m[0].length;
    if (m[2] === 'm') style = apply(style, (m[1] || '0').split(/[;:]/).map(Number));
  }
  add(text.length);
  return <>{out}</>;
}
